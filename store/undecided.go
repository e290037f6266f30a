package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// Undecided is an event that an instance gets if the network says that its owner can see the chat.
type Undecided struct {
	Number   uint64 // grows from event to event; unique in the database
	At       time.Time
	Instance relay.InstanceID
	Event    relay.Event
}

// undecidedRecord is an Undecided as it rests on disk. Its number is the end of its key.
type undecidedRecord struct {
	At       time.Time        `json:"at"`
	Instance relay.InstanceID `json:"instance"`
	Event    relay.Event      `json:"event"`
}

// undecidedUnder is how the keys of a chat's undecided events begin, of one instance's if i is given.
func undecidedUnder(c relay.Chat, i ...string) []byte {
	return prefix(c.Bot.Platform, append([]string{string(c.Bot.ID), string(c.ID)}, i...)...)
}

func undecidedKey(c relay.Chat, i relay.InstanceID, number uint64) []byte {
	return binary.BigEndian.AppendUint64(undecidedUnder(c, string(i)), number)
}

// postpone stores ev until it is known whether i gets it.
func (t *tx) postpone(b relay.Bot, i relay.InstanceID, ev relay.Event, now time.Time) error {
	number, err := t.file.Next(string(bucketUndecided))
	if err != nil {
		return fmt.Errorf("undecided: %w", err)
	}
	k := undecidedKey(relay.Chat{Bot: b, ID: ev.Source.ChatID}, i, number)
	return t.put(bucketUndecided, k, undecidedRecord{At: now, Instance: i, Event: ev})
}

// UndecidedIn lists undecided events of a chat, at most limit of them (0: all), the oldest of an
// instance first. Damaged ones are left out: they were named when the file was opened.
func (db *DB) UndecidedIn(ctx context.Context, c relay.Chat, limit int) ([]Undecided, error) {
	return db.undecided(ctx, undecidedUnder(c), limit)
}

// UndecidedFor counts the events of the chat that are undecided for i, up to limit.
func (db *DB) UndecidedFor(ctx context.Context, c relay.Chat, i relay.InstanceID, limit int) (n int, err error) {
	err = db.read(ctx, func(t *bolt.Tx) error {
		n = 0
		for range under(t, bucketUndecided, undecidedUnder(c, string(i))) {
			if n++; n >= limit {
				break
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("undecided events: %w", err)
	}
	return n, nil
}

// Undecided lists all undecided events, chat by chat and instance by instance, the oldest first.
func (db *DB) Undecided(ctx context.Context) ([]Undecided, error) {
	return db.undecided(ctx, nil, 0)
}

func (db *DB) undecided(ctx context.Context, pre []byte, limit int) ([]Undecided, error) {
	var out []Undecided
	err := db.read(ctx, func(t *bolt.Tx) error {
		out = nil
		for k, v := range under(t, bucketUndecided, pre) {
			if limit > 0 && len(out) == limit {
				break
			}
			if r, err := decode[undecidedRecord](k, v); err == nil {
				out = append(out, Undecided{Number: tailSeq(k), At: r.At, Instance: r.Instance, Event: r.Event})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("undecided events: %w", err)
	}
	return out, nil
}

// Verdict is what became of an undecided event.
type Verdict struct {
	Number   uint64
	Instance relay.InstanceID
	Event    relay.Event // as it is to be delivered
	Delivery *Delivery   // nil: the instance does not get it
}

// Decide stores the verdicts about undecided events of one chat in one transaction: each leaves the
// undecided ones, and becomes an entry if it is delivered. Of the outcomes, one per verdict,
// Duplicate says that the event was not undecided any more, and that nothing was stored. ErrFull as
// with Accept.
func (db *DB) Decide(ctx context.Context, c relay.Chat, vs []Verdict) (AcceptOutcome, error) {
	now := db.now()
	items := make([]prepared, len(vs))
	size := 0
	for n, v := range vs {
		items[n].item.Event = v.Event
		if v.Delivery == nil {
			continue
		}
		payload, err := encode(entryRecord{At: now, Event: v.Event})
		if err != nil {
			return AcceptOutcome{}, fmt.Errorf("decide: encode event %s: %w", v.Event.ID, err)
		}
		items[n].payload = payload
		size += len(payload)
	}
	var out AcceptOutcome
	o := &op{size: size, grows: size > 0, fn: func(t *tx) error {
		out = AcceptOutcome{Items: make([]ItemOutcome, len(vs))}
		for n, v := range vs {
			k := undecidedKey(c, v.Instance, v.Number)
			if !has(t.Tx, bucketUndecided, k) {
				out.Items[n].Duplicate = true
				continue
			}
			if err := t.del(bucketUndecided, k); err != nil {
				return err
			}
			if v.Delivery == nil {
				continue
			}
			id, overflowed, err := t.deliver(c.Bot, items[n], *v.Delivery, db.limits, now)
			if err != nil {
				return err
			}
			out.Items[n].Buffers = []relay.BufferID{id}
			out.overflowed(v.Delivery.Instance, overflowed)
		}
		return nil
	}}
	if err := db.do(ctx, o); err != nil {
		return AcceptOutcome{}, fmt.Errorf("decide for %s: %w", c.Bot, err)
	}
	return out, nil
}

// overflowed notes that n entries of i had to make room.
func (o *AcceptOutcome) overflowed(i relay.InstanceID, n int) {
	if n == 0 {
		return
	}
	if o.Overflowed == nil {
		o.Overflowed = make(map[relay.InstanceID]int)
	}
	o.Overflowed[i] += n
}

// moveUndecided takes the undecided events of a chat along to its new id, behind what waits there.
func (t *tx) moveUndecided(m Move) error {
	for _, k := range keysUnder(t.Tx, bucketUndecided, prefix(m.Platform)) {
		r, ok, err := load[undecidedRecord](t.Tx, bucketUndecided, k)
		if errors.Is(err, ErrDamaged) || err == nil && (!ok || r.Event.Source.ChatID != m.From) {
			continue
		}
		if err != nil {
			return err
		}
		if err := t.del(bucketUndecided, k); err != nil {
			return err
		}
		r.Event.Source.ChatID = m.To
		k = undecidedKey(relay.Chat{Bot: r.Event.Bot, ID: m.To}, r.Instance, tailSeq(k))
		if err := t.put(bucketUndecided, k, r); err != nil {
			return err
		}
	}
	return nil
}
