package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Accept is what one batch of a bot stores.
type Accept struct {
	Bot        relay.Bot
	Items      []AcceptItem
	Quarantine []Quarantined
	Cursor     []byte // nil: unchanged; equal to the present one: not written
	// Save: Cursor is worth a write. Without it, and when nothing else is stored, it rides with the
	// next write, whoever's, or is written after a minute, or by Close.
	Save bool
}

// AcceptItem is one event and the instances it was admitted to. Only events that are delivered
// or consumed are items.
type AcceptItem struct {
	Event      relay.Event
	Deliveries []Delivery
	// Undecided is the instance of which it is not known yet whether it gets the event; empty: none.
	Undecided relay.InstanceID
}

// Delivery is one instance that is to get an event.
type Delivery struct {
	Instance relay.InstanceID
	// Conversation is stored with it. Instance, Bot, Chat and LastAt are filled in from the event.
	Conversation Conversation
	Oversize     bool // goes to the dead letters at once
}

// AcceptOutcome is what became of an Accept.
type AcceptOutcome struct {
	Items []ItemOutcome // as Accept.Items
	// Overflowed counts the entries moved to the dead letters to make room; nil when none were.
	Overflowed map[relay.InstanceID]int
}

// ItemOutcome is what became of one item.
type ItemOutcome struct {
	Duplicate bool             // the event was stored before; nothing was stored now
	Buffers   []relay.BufferID // as Deliveries; zero where the delivery was skipped or is oversize
}

// prepared is an AcceptItem with everything encoded that can be before the transaction.
type prepared struct {
	item    AcceptItem
	mark    []byte
	payload []byte // entryRecord; nil when there are no deliveries
}

// Accept stores one batch in one transaction: the quarantine, then per item the seen mark, its
// deliveries and what is undecided, and the cursor. An item whose event was seen before, be it in the
// same batch, stores nothing. A delivery to an instance that is not enrolled, or revoked, is
// skipped. A lane past its limits loses its oldest entries to the dead letters in the same
// transaction. A batch with nothing to write but its cursor does not write. ErrFull: nothing is stored until
// something was deleted.
func (db *DB) Accept(ctx context.Context, a Accept) (AcceptOutcome, error) {
	now := db.now()
	items, size, err := prepareItems(a, now)
	if err != nil {
		return AcceptOutcome{}, fmt.Errorf("accept for %s: %w", a.Bot, err)
	}
	var out AcceptOutcome
	var bad []badMark
	o := &op{size: size, grows: true, fn: func(t *tx) (err error) {
		out, bad, err = t.accept(a, items, db.limits, now)
		return err
	}}
	if err := db.do(ctx, o); err != nil {
		return AcceptOutcome{}, fmt.Errorf("accept for %s: %w", a.Bot, err)
	}
	db.report(bad)
	return out, nil
}

func prepareItems(a Accept, now time.Time) (out []prepared, size int, err error) {
	for _, q := range a.Quarantine {
		size += len(q.Raw)
	}
	out = make([]prepared, len(a.Items))
	for n, item := range a.Items {
		if item.Event.ID == "" {
			return nil, 0, errors.New("an event has no id")
		}
		p := prepared{item: item, mark: seenKey(a.Bot, item.Event.ID)}
		if len(item.Deliveries) > 0 {
			if p.payload, err = encode(entryRecord{At: now, Event: item.Event}); err != nil {
				return nil, 0, fmt.Errorf("encode event %s: %w", item.Event.ID, err)
			}
		}
		size += len(p.mark) + len(p.payload)*len(item.Deliveries)
		out[n] = p
	}
	return out, size, nil
}

// accept is Accept's transaction. bad are the damaged seen marks it met and removed.
func (t *tx) accept(a Accept, items []prepared, m Limits, now time.Time) (out AcceptOutcome, bad []badMark, err error) {
	out.Items = make([]ItemOutcome, len(items))
	for _, q := range a.Quarantine {
		if err := t.quarantine(q); err != nil {
			return out, nil, err
		}
	}
	for n, p := range items {
		seen, spoilt := isSeen(t.Tx, p.mark)
		for _, m := range spoilt {
			if err := t.del(m.day, m.key); err != nil {
				return out, nil, err
			}
		}
		bad = append(bad, spoilt...)
		if seen {
			out.Items[n].Duplicate = true
			continue
		}
		if err := t.mark(p.mark, now); err != nil {
			return out, nil, err
		}
		out.Items[n].Buffers = make([]relay.BufferID, len(p.item.Deliveries))
		for d, delivery := range p.item.Deliveries {
			id, overflowed, err := t.deliver(a.Bot, p, delivery, m, now)
			if err != nil {
				return out, nil, err
			}
			out.Items[n].Buffers[d] = id
			out.overflowed(delivery.Instance, overflowed)
		}
		if i := p.item.Undecided; i != "" {
			if err := t.postpone(a.Bot, i, p.item.Event, now); err != nil {
				return out, nil, err
			}
		}
	}
	t.setCursor(a.Bot, a.Cursor, a.Save) // last: what failed moves no cursor
	return out, bad, nil
}

// deliver stores one delivery. The id is zero when the instance is not there or the delivery is oversize.
func (t *tx) deliver(b relay.Bot, p prepared, d Delivery, m Limits, now time.Time) (id relay.BufferID, overflowed int, err error) {
	l, err := t.live(d.Instance)
	if errors.Is(err, ErrNotFound) {
		return id, 0, nil
	}
	if err != nil {
		return id, 0, err
	}
	c := d.Conversation
	c.Instance, c.Bot, c.Chat, c.LastAt = d.Instance, b, p.item.Event.Source.ChatID, now
	// An event may be from just before its chat moved. A translation that is damaged must not stop it.
	if to, err := current(t.Tx, b.Platform, c.Chat); err == nil {
		c.Chat = to
	}
	if err := t.converse(c); err != nil {
		return id, 0, err
	}
	if d.Oversize {
		dead := deadRecord{DiedAt: now, Reason: DeadOversize, Size: envelopeSize + len(p.payload), Entry: p.payload}
		return id, 0, t.addDead(d.Instance, l, l.next(), dead)
	}
	if id, err = t.append(d.Instance, l, p.payload); err != nil {
		return id, 0, err
	}
	overflowed, err = t.trim(d.Instance, l, m, now)
	return id, overflowed, err
}
