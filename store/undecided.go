package store

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/entry"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/undecided"
	bolt "go.etcd.io/bbolt"
)

type (
	// Undecided is a delivery that an instance gets if the network says that its owner can see the chat.
	Undecided = undecided.Delivery
	// UndecidedFilter picks undecided deliveries.
	UndecidedFilter = undecided.Filter
)

// Undecideds are the deliveries that wait for a verdict. All methods: any goroutine.
type Undecideds struct{ db *DB }

// Count is undecided.Count.
func (u *Undecideds) Count(ctx context.Context, f UndecidedFilter) (int, error) {
	return get(ctx, u.db, "undecided events", func(t *bolt.Tx) (int, error) { return undecided.Count(t, f), nil })
}

// List is undecided.List.
func (u *Undecideds) List(ctx context.Context, f UndecidedFilter) ([]Undecided, error) {
	return get(ctx, u.db, "undecided events", func(t *bolt.Tx) ([]Undecided, error) { return undecided.List(t, f), nil })
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
func (u *Undecideds) Decide(ctx context.Context, c relay.Chat, vs []Verdict) (AcceptOutcome, error) {
	db := u.db
	now := db.now()
	items := make([]prepared, len(vs))
	size := 0
	for n, v := range vs {
		items[n].about = entry.Of(v.Delivery)
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
			k := undecided.Key(c, v.Instance, v.Number)
			if !table.Has(t.Tx, undecided.Bucket, k) {
				out.Items[n].Duplicate = true
				continue
			}
			if err := t.Delete(undecided.Bucket, k); err != nil {
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
				if err := t.answered(v.Press, asked, now); err != nil {
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
