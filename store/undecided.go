package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Undecided is a delivery that an instance gets if the network says that its owner can see the chat.
type Undecided struct {
	Number   uint64 // grows from one to the next; unique in the database
	At       time.Time
	Instance relay.InstanceID
	Delivery relay.Delivery
}

// undecidedRecord is an Undecided as it rests on disk: not as a frame, for it is judged again. Its
// number is the end of its key.
type undecidedRecord struct {
	At       time.Time        `json:"at"`
	Instance relay.InstanceID `json:"instance"`
	Event    *relay.Event     `json:"event,omitempty"` // one of the two
	Forward  *relay.Forward   `json:"forward,omitempty"`
}

// event is the event that the record is about, in place; nil when there is none.
func (r *undecidedRecord) event() *relay.Event {
	if r.Forward != nil {
		return &r.Forward.Event
	}
	return r.Event
}

func decodeUndecided(k, value []byte) (r undecidedRecord, err error) {
	r, err = table.Decode[undecidedRecord](k, value)
	if err == nil && r.event() == nil {
		err = errors.New("it is about nothing")
	}
	return r, err
}

// undecidedUnder is how the keys of a chat's undecided events begin, of one instance's if i is given.
func undecidedUnder(c relay.Chat, i ...string) []byte {
	return table.Prefix(c.Bot.Platform, append([]string{string(c.Bot.ID), string(c.ID)}, i...)...)
}

func undecidedKey(c relay.Chat, i relay.InstanceID, number uint64) []byte {
	return binary.BigEndian.AppendUint64(undecidedUnder(c, string(i)), number)
}

// postpone stores d until it is known whether i gets it.
func (t *tx) postpone(b relay.Bot, i relay.InstanceID, d relay.Delivery, now time.Time) error {
	number, err := t.Next(bucketUndecided)
	if err != nil {
		return fmt.Errorf("undecided: %w", err)
	}
	k := undecidedKey(relay.Chat{Bot: b, ID: d.About().Source.ChatID}, i, number)
	r := undecidedRecord{At: now, Instance: i}
	switch d := d.(type) {
	case relay.Event:
		r.Event = &d
	case relay.Forward:
		r.Forward = &d
	}
	return t.Put(bucketUndecided, k, r)
}

// UndecidedFilter picks undecided deliveries. The zero value picks all.
type UndecidedFilter struct {
	Chat     relay.Chat
	Instance relay.InstanceID // of that chat's
	Limit    int              // 0 means no limit
}

// under is how the keys begin of what f picks.
func (f UndecidedFilter) under() []byte {
	switch {
	case f.Instance != "":
		return undecidedUnder(f.Chat, string(f.Instance))
	case f.Chat.ID != "":
		return undecidedUnder(f.Chat)
	}
	return nil
}

// CountUndecided is how many undecided deliveries there are, up to the limit. It reads keys only.
func (db *DB) CountUndecided(ctx context.Context, f UndecidedFilter) (int, error) {
	return get(ctx, db, "undecided events", func(t *bolt.Tx) (n int, err error) {
		for range table.Under(t, bucketUndecided, f.under()) {
			if n++; n == f.Limit {
				break
			}
		}
		return n, nil
	})
}

// Undecided lists undecided deliveries, chat by chat and instance by instance, the oldest first. Damaged
// ones are left out: they were named when the file was opened.
func (db *DB) Undecided(ctx context.Context, f UndecidedFilter) ([]Undecided, error) {
	return get(ctx, db, "undecided events", func(t *bolt.Tx) (out []Undecided, err error) {
		for k, v := range table.Under(t, bucketUndecided, f.under()) {
			if f.Limit > 0 && len(out) == f.Limit {
				break
			}
			r, err := decodeUndecided(k, v)
			if err != nil {
				continue
			}
			u := Undecided{Number: table.Number(k), At: r.At, Instance: r.Instance}
			if r.Forward != nil {
				u.Delivery = *r.Forward
			} else {
				u.Delivery = *r.Event
			}
			out = append(out, u)
		}
		return out, nil
	})
}

// Verdict is what became of something undecided.
type Verdict struct {
	Number   uint64
	Instance relay.InstanceID
	Delivery relay.Delivery
	Frame    []byte        // as AcceptItem.Frame
	Forward  *Forward      // as AcceptItem.Forward
	Whole    bool          // as AcceptItem.Whole
	Press    *prompt.Press // as AcceptItem.Press
	To       *Recipient    // nil: the instance does not get it
}

// Decide stores the verdicts about undecided events of one chat in one transaction: each leaves the
// undecided ones, and becomes an entry if it is delivered. Of the outcomes, one per verdict,
// Duplicate says that the event was not undecided any more, and that nothing was stored, and Late that it
// came too late for its prompt. ErrFull as with Accept.
func (db *DB) Decide(ctx context.Context, c relay.Chat, vs []Verdict) (AcceptOutcome, error) {
	now := db.now()
	items := make([]prepared, len(vs))
	size := 0
	for n, v := range vs {
		items[n].about = aboutOf(v.Delivery)
		if v.To == nil {
			continue
		}
		items[n].item = AcceptItem{Delivery: v.Delivery, Frame: v.Frame, Forward: v.Forward, Whole: v.Whole, To: []Recipient{*v.To}}
		if err := items[n].encode(db.run, now); err != nil {
			return AcceptOutcome{}, fmt.Errorf("decide: %w", err)
		}
		size += len(items[n].entryFor(*v.To))
	}
	var out AcceptOutcome
	o := &op{size: size, grows: size > 0, fn: func(t *tx) error {
		out = AcceptOutcome{Items: make([]ItemOutcome, len(vs))}
		for n, v := range vs {
			k := undecidedKey(c, v.Instance, v.Number)
			if !table.Has(t.Tx, bucketUndecided, k) {
				out.Items[n].Duplicate = true
				continue
			}
			if err := t.Delete(bucketUndecided, k); err != nil {
				return err
			}
			asked, late, err := t.late(v.Press, now)
			if err != nil {
				return err
			}
			var id relay.BufferID
			out.Items[n].Late = late
			if v.To != nil && !late {
				if id, err = t.deliver(c.Bot, items[n], *v.To, now, &out); err != nil {
					return err
				}
				out.Items[n].Buffers = []relay.BufferID{id}
				if err := t.answered(v.Press, asked, out.Items[n].Buffers, now); err != nil {
					return err
				}
			}
			if err := capability.Release(t.Writer, v.Instance, c.Bot, items[n].about.ID, !id.IsZero()); err != nil {
				return err
			}
		}
		return nil
	}}
	if err := db.do(ctx, o); err != nil {
		return AcceptOutcome{}, fmt.Errorf("decide for %s: %w", c.Bot, err)
	}
	return out, nil
}

// moveUndecided takes the undecided events of a chat along to its new id, behind what waits there.
func (t *tx) moveUndecided(m Move) error {
	for _, k := range table.KeysUnder(t.Tx, bucketUndecided, table.Prefix(m.Platform)) {
		r, err := decodeUndecided(k, t.Bucket([]byte(bucketUndecided)).Get(k))
		if err != nil {
			continue // damaged
		}
		ev := r.event()
		if ev.Source.ChatID != m.From {
			continue
		}
		if err := t.Delete(bucketUndecided, k); err != nil {
			return err
		}
		ev.Source.ChatID = m.To
		k = undecidedKey(relay.Chat{Bot: ev.Bot, ID: m.To}, r.Instance, table.Number(k))
		if err := t.Put(bucketUndecided, k, r); err != nil {
			return err
		}
	}
	return nil
}
