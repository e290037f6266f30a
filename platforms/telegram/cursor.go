package telegram

import (
	"encoding/json"
	"fmt"
	"time"
)

// idleGap is how long the ids of updates are sure to count on. After a week without an update
// Telegram goes on with a random number, which may be a lower one; an old offset would then
// confirm updates nobody has seen.
const idleGap = 6 * 24 * time.Hour

// position is how far the updates were accepted. It is stored with every batch.
type position struct {
	Next int64     `json:"next"` // the offset that confirms what was accepted; 0: nothing was
	At   time.Time `json:"at"`   // when the newest update was received, by our clock
	// Base is the server that counts like this: another one has its own numbers.
	Base string `json:"base,omitempty"`
}

// readCursor decodes what an inbox kept. A cursor of another server than base counts for nothing.
func readCursor(raw []byte, base string) (position, error) {
	none := position{Base: base}
	if len(raw) == 0 {
		return none, nil
	}
	var c position
	if err := json.Unmarshal(raw, &c); err != nil {
		return none, fmt.Errorf("stored cursor: %w", err)
	}
	if c.Base != base {
		return none, nil
	}
	return c, nil
}

// offset is what to ask for, and false when to ask for whatever is not confirmed yet. What
// comes twice for that is recognised by its event id.
func (c position) offset(now time.Time) (int64, bool) {
	return c.Next, c.Next != 0 && now.Sub(c.At) < idleGap
}

// past is the cursor behind the updates of one answer. The highest number decides, also
// when it is lower than before: then the numbers have begun anew.
func (c position) past(raws []json.RawMessage, now time.Time) position {
	highest := int64(0)
	for _, raw := range raws {
		highest = max(highest, updateID(raw))
	}
	if highest != 0 {
		c.Next = highest + 1
	}
	c.At = now
	return c
}

func (c position) encode() []byte {
	raw, _ := json.Marshal(c) // a number, a time and a string cannot fail
	return raw
}
