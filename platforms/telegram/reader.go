package telegram

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// reader turns answers of getUpdates into batches, and remembers topics' names and what was said. It is for one goroutine.
type reader struct {
	normaliser
	history *history
	log     *slog.Logger
}

func newReader(bot relay.Bot, me identity, edits bool, log *slog.Logger) *reader {
	return &reader{
		normaliser: normaliser{bot: bot, me: me, edits: edits, topics: newTopics()},
		history:    newHistory(),
		log:        log,
	}
}

// batch reads each update by itself: one that makes no sense goes into quarantine alone. Messages that belong together
// become one event. highest is of the updates' numbers.
func (r *reader) batch(raws []json.RawMessage) (b platforms.Batch, highest int64) {
	parts, own := newJoiner(), []int(nil)
	for _, raw := range raws {
		o, err := r.read(raw)
		if err != nil {
			o = reading{id: updateID(raw)}
			b.Undecodable = append(b.Undecodable, platforms.Undecodable{Raw: raw, Err: err})
			r.log.Warn("telegram update makes no sense; kept in quarantine", "update", o.id, "err", err)
		}
		highest = max(highest, o.id)
		if first, n := o.first(parts, len(b.Events)), len(b.Events); o.event != nil && first < n {
			own[first] = join(&b.Events[first], own[first], *o.event, o.own)
		} else if o.event != nil {
			b.Events, own = append(b.Events, *o.event), append(own, o.own)
		}
		b.Moves = append(b.Moves, o.moves...)
		b.Roster = append(b.Roster, o.roster...)
		if o.named != "" {
			r.topics.learn(o.topic, o.named)
		}
	}
	for _, ev := range b.Events {
		r.history.heard(ev)
	}
	return b, highest
}

// first is the number of the event that o's goes on with; n, which is to be its own, if it stands for itself.
func (o reading) first(parts *joiner, n int) int {
	if o.event == nil || o.post == nil {
		return n
	}
	first, _ := parts.place(o.post, n)
	return first
}

// read decodes and normalises one update.
func (r *reader) read(raw json.RawMessage) (reading, error) {
	return guarded(func() (reading, error) {
		var u update
		if err := httpcall.Decode(raw, &u); err != nil {
			return reading{}, err
		}
		o, err := r.normalise(&u)
		o.id = u.ID
		if o.event != nil && o.event.Traits.Press { // of which Telegram does not say when
			o.event.At = time.Now().UTC()
		}
		return o, err
	})
}

// guarded runs f; a panic counts as its error.
func guarded(f func() (reading, error)) (o reading, err error) {
	defer func() {
		if v := recover(); v != nil {
			o, err = reading{}, errors.New("panic: "+relay.PanicWords(v))
		}
	}()
	return f()
}

// updateID is an update's number, even if nothing else of it makes sense; 0 when it has none.
func updateID(raw json.RawMessage) int64 {
	var u struct {
		ID int64 `json:"update_id"`
	}
	_ = json.Unmarshal(raw, &u) // which looks at no other field
	return u.ID
}

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
	var c position
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &c); err != nil {
			return position{Base: base}, fmt.Errorf("stored cursor: %w", err)
		}
	}
	if c.Base != base {
		return position{Base: base}, nil
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
func (c position) past(highest int64, now time.Time) position {
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
