package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const bucketPending = "undecided" // platform|bot|chat|instance|number -> pendingRecord

// Pending is a delivery that an instance gets if the network says that its owner can see the chat.
type Pending struct {
	Number   uint64 // grows from one to the next; unique in the database
	Instance relay.InstanceID
	Delivery relay.Delivery
}

// pendingRecord is the stored form of a Pending: the event and not its frame, because it is judged again. Its number is
// the end of its key.
type pendingRecord struct {
	At       time.Time        `json:"at"`
	Instance relay.InstanceID `json:"instance"`
	Event    *relay.Event     `json:"event,omitempty"` // one of the two
	Forward  *relay.Forward   `json:"forward,omitempty"`
}

// about returns a pointer to the record's event; nil if there is none.
func (r *pendingRecord) about() *relay.Event {
	if r.Forward != nil {
		return &r.Forward.Event
	}
	return r.Event
}

// decodePending reads the record under k.
func decodePending(k, value []byte) (r pendingRecord, err error) {
	r, err = table.Decode[pendingRecord](k, value)
	if err == nil && r.about() == nil {
		err = errors.New("it is about nothing")
	}
	return r, err
}

// pendingUnder returns the beginning of the keys of a chat's deliveries, of one instance's if i is given.
func pendingUnder(c relay.Chat, i ...string) []byte {
	return table.Prefix(c.Bot.Platform, append([]string{string(c.Bot.ID), string(c.ID)}, i...)...)
}

// pendingKey returns the key of a delivery.
func pendingKey(c relay.Chat, i relay.InstanceID, number uint64) []byte {
	return binary.BigEndian.AppendUint64(pendingUnder(c, string(i)), number)
}

// postpone stores d until it is known whether i gets it.
func postpone(w *table.Writer, b relay.Bot, i relay.InstanceID, d relay.Delivery, now time.Time) error {
	number, err := w.Next(bucketPending)
	if err != nil {
		return fmt.Errorf("pending: %w", err)
	}
	r := pendingRecord{At: now, Instance: i}
	switch d := d.(type) {
	case relay.Event:
		r.Event = &d
	case relay.Forward:
		r.Forward = &d
	}
	return w.Put(bucketPending, pendingKey(relay.Chat{Bot: b, ID: d.About().Source.ChatID}, i, number), r)
}

// PendingFilter picks pending deliveries. The zero value picks all.
type PendingFilter struct {
	Chat     relay.Chat
	Instance relay.InstanceID // in that chat
	Limit    int              // 0 means no limit
}

// under returns the beginning of the keys that f selects.
func (f PendingFilter) under() []byte {
	switch {
	case f.Instance != "":
		return pendingUnder(f.Chat, string(f.Instance))
	case f.Chat.ID != "":
		return pendingUnder(f.Chat)
	}
	return nil
}

// Pendings are the deliveries that wait for a verdict. Its methods may be called from any goroutine.
type Pendings struct{ db *DB }

// Count returns how many deliveries f selects, up to the limit. It reads keys only.
func (ps *Pendings) Count(ctx context.Context, f PendingFilter) (int, error) {
	return table.Get(ctx, ps.db.records, "pending events", func(t *bolt.Tx) (n int, _ error) {
		for range table.Under(t, bucketPending, f.under()) {
			if n++; n == f.Limit {
				break
			}
		}
		return n, nil
	})
}

// List lists the deliveries that f selects, chat by chat and instance by instance, the oldest first. It leaves out
// damaged ones, which were reported when the file was opened.
func (ps *Pendings) List(ctx context.Context, f PendingFilter) ([]Pending, error) {
	return table.Get(ctx, ps.db.records, "pending events", func(t *bolt.Tx) (out []Pending, _ error) {
		for k, v := range table.Under(t, bucketPending, f.under()) {
			if f.Limit > 0 && len(out) == f.Limit {
				break
			}
			r, err := decodePending(k, v)
			if err != nil {
				continue
			}
			p := Pending{Number: table.Number(k), Instance: r.Instance}
			if r.Forward != nil {
				p.Delivery = *r.Forward
			} else {
				p.Delivery = *r.Event
			}
			out = append(out, p)
		}
		return out, nil
	})
}

// Verdict is the decision about a pending delivery.
type Verdict struct {
	Number   uint64
	Instance relay.InstanceID
	Delivery relay.Delivery
	Frame    []byte        // as AcceptItem.Frame
	Forward  *Forward      // as AcceptItem.Forward
	Whole    bool          // as AcceptItem.Whole
	Press    *prompt.Press // as AcceptItem.Press
	To       *Recipient    // nil: the instance does not get it
	Why      string        // the reason, as the history records it
}

// Decide stores the verdicts about pending events of one chat in one transaction: each event stops being pending, and
// becomes an entry if it is delivered. It returns one outcome per verdict. Duplicate says that the event was no longer
// pending, and nothing was stored; Late says that the event answers a prompt that is no longer open, and was not
// delivered. ErrFull as with Accept.
func (ps *Pendings) Decide(ctx context.Context, c relay.Chat, vs []Verdict) (AcceptOutcome, error) {
	db := ps.db
	now := db.now()
	items := make([]prepared, len(vs))
	size := 0
	for n, v := range vs {
		items[n].about, items[n].item.Delivery = AboutOf(v.Delivery), v.Delivery
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
	err := db.change(ctx, nil, fmt.Sprintf("decide for %s", c.Bot), func(t *tx) error {
		out = AcceptOutcome{Items: make([]ItemOutcome, len(vs))}
		for n, v := range vs {
			k := pendingKey(c, v.Instance, v.Number)
			if !table.Has(t.Tx, bucketPending, k) {
				out.Items[n].Duplicate = true
				continue
			}
			if err := t.Delete(bucketPending, k); err != nil {
				return err
			}
			asked, open, err := prompt.Takes(t.Tx, v.Press, now)
			if err != nil {
				return err
			}
			var id relay.BufferID
			out.Items[n].Late = !open
			if v.To != nil && open {
				if id, err = t.deliver(c.Bot, items[n], *v.To, now, &out); err != nil {
					return err
				}
				out.Items[n].Buffers = []relay.BufferID{id}
				if err := prompt.Take(t.Writer, asked, v.Press, now); err != nil {
					return err
				}
			}
			if err := capability.Release(t.Writer, v.Instance, c.Bot, items[n].about.ID, !id.IsZero()); err != nil {
				return err
			}
			verdict, p := history.Verdict{Instance: v.Instance, Why: v.Why}, items[n]
			if !open {
				verdict.Why, p.item.To = history.Late, nil
			}
			t.recall(p, verdict, out.Items[n].Buffers, now, true)
		}
		return nil
	}, size)
	if err != nil {
		return AcceptOutcome{}, err
	}
	return out, nil
}

// movePending is moveChat for pending deliveries. They keep their numbers, so they are in the order of their arrival
// with those that wait under the new id.
func movePending(w *table.Writer, m Move) error {
	for _, k := range table.KeysUnder(w.Tx, bucketPending, table.Prefix(m.Platform)) {
		r, err := decodePending(k, w.Bucket([]byte(bucketPending)).Get(k))
		if err != nil {
			continue // a damaged record stays as it is
		}
		ev := r.about()
		if ev.Source.ChatID != m.From {
			continue
		}
		if err := w.Delete(bucketPending, k); err != nil {
			return err
		}
		ev.Source.ChatID = m.To
		if err := w.Put(bucketPending, pendingKey(relay.Chat{Bot: ev.Bot, ID: m.To}, r.Instance, table.Number(k)), r); err != nil {
			return err
		}
	}
	return nil
}
