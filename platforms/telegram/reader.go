package telegram

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// reader turns answers of getUpdates into batches, and remembers topics' names and recent messages. It is for one
// goroutine.
type reader struct {
	normaliser
	history *history
	log     *slog.Logger
}

// received is an update in raw form, decoded as far as it makes sense.
type received struct {
	update
	raw json.RawMessage
	err error // why it makes no sense; nil: it does
}

// receivedIn returns the update in raw.
func receivedIn(raw []byte) *received {
	u := &received{raw: raw}
	u.err = guarded(func() error { return httpcall.Decode(raw, &u.update) })
	return u
}

// UnmarshalJSON never fails: an update that makes no sense is put into quarantine by itself.
func (u *received) UnmarshalJSON(raw []byte) error {
	*u = *receivedIn(bytes.Clone(raw))
	return nil
}

// batch reads each update by itself: one that makes no sense goes into quarantine alone. Messages that belong together
// become one event; own has, for each event, how many of its attachments are its own.
func (r *reader) batch(us ...*received) (b platforms.Batch) {
	parts, own := newJoiner(), []int(nil)
	for _, u := range us {
		o, err := r.read(u)
		if err != nil {
			b.Undecodable = append(b.Undecodable, platforms.Undecodable{Raw: u.raw, Err: err})
			r.log.Warn("telegram update makes no sense; kept in quarantine", "update", u.ID, "err", err)
		}
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
	return b
}

// first returns the index in the batch of the event that o's event continues; n, which is to be its own index, if it
// continues none.
func (o reading) first(parts *joiner, n int) int {
	if o.event == nil || o.post == nil {
		return n
	}
	first, _ := parts.place(o.post, n)
	return first
}

// read normalises one update; after an error there is no event.
func (r *reader) read(u *received) (o reading, err error) {
	if err = u.err; err == nil {
		err = guarded(func() (err error) {
			o, err = r.normalise(&u.update)
			return err
		})
	}
	if err != nil {
		return reading{}, err
	}
	if o.event != nil && o.event.Traits.Press { // Telegram gives no time for a press
		o.event.At = time.Now().UTC()
	}
	return o, nil
}

// guarded runs f; a panic counts as its error.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New("panic: " + relay.PanicWords(v))
		}
	}()
	return f()
}

// idleGap is how long the ids of updates certainly continue. After a week without an update Telegram goes on with a
// random number, which may be lower; an old offset would then confirm updates that nobody has seen.
const idleGap = 6 * 24 * time.Hour

// position is how far the updates were accepted. It is stored with every batch.
type position struct {
	Next int64     `json:"next"` // the offset that confirms the accepted updates; 0: there are none
	At   time.Time `json:"at"`   // when the newest update was received, by our clock
	// Base is the server whose numbers these are: another server has its own.
	Base string `json:"base,omitempty"`
}

// readCursor decodes a stored cursor. It ignores the cursor of another server than base.
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

// offset returns the offset to ask for, and false if all unconfirmed updates are to be asked for. Updates that come
// twice because of that are recognised by their event ids.
func (c position) offset(now time.Time) (int64, bool) {
	return c.Next, c.Next != 0 && now.Sub(c.At) < idleGap
}

// past returns the cursor behind the updates of one answer. The highest number decides, even if it is lower than
// before: then the numbers have begun anew.
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
