package callers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// The buckets of receipts.
const (
	Receipts = "receipts" // caller|event -> relay.Receipt
	// Due lists the scheduled receipts in the order of their times: milliseconds since 1970, caller, event -> true.
	Due = "due"
	// Latest has the message that an agent acknowledged last in a chat: chat -> latest.
	Latest = "latest"
)

// MaxScheduled is how many scheduled messages a caller may have.
const MaxScheduled = 1000

// ErrTooMany: the limit is reached, of callers, of what one caller may reach, or of its scheduled messages.
var ErrTooMany = errors.New("there are too many")

func receiptKey(caller string, ev relay.EventID) []byte { return table.Key(caller, string(ev)) }

func dueKey(r relay.Receipt) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(r.When.UnixMilli())), receiptKey(r.Caller, r.Event)...)
}

// Size is about how large a receipt is, without its text.
const Size = 1 << 10

// Receipt returns the receipt of a caller's event; ok is false if there is none.
func (rs *Records) Receipt(ctx context.Context, caller string, ev relay.EventID) (r relay.Receipt, ok bool, err error) {
	return table.Find[relay.Receipt](ctx, rs.db, "receipt", Receipts, receiptKey(caller, ev))
}

// Put stores the receipt of an event that the same transaction stores under the id b. It replaces the receipt of a
// scheduled message.
func Put(w *table.Writer, r relay.Receipt, b relay.BufferID, now time.Time) error {
	if err := unschedule(w, r); err != nil {
		return err
	}
	r.At, r.Buffer, r.When, r.Text = now, b, time.Time{}, ""
	return w.Put(Receipts, receiptKey(r.Caller, r.Event), r)
}

// unschedule deletes the message of r from the bucket Due, if it is scheduled.
func unschedule(w *table.Writer, r relay.Receipt) error {
	old, ok, err := table.Load[relay.Receipt](w.Tx, Receipts, receiptKey(r.Caller, r.Event))
	if err != nil || !ok || old.When.IsZero() {
		return err
	}
	return w.Delete(Due, dueKey(old))
}

// Take notes that the gateway of an agent has acknowledged the event of a program.
func Take(w *table.Writer, user relay.UserID, chat relay.ChatID, ev relay.EventID, now time.Time) error {
	p, _ := relay.ProgramOf(user)
	k := receiptKey(p.Caller, ev)
	r, ok, err := table.Load[relay.Receipt](w.Tx, Receipts, k)
	if err != nil || !ok { // the receipt has expired, or its caller is gone
		return err
	}
	r.TakenAt = now
	return errors.Join(w.Put(Receipts, k, r), w.Put(Latest, table.Key(chat), latest{p.Caller, ev, now}))
}

// latest is the message that an agent acknowledged last in a chat.
type latest struct {
	Caller string        `json:"caller"`
	Event  relay.EventID `json:"event"`
	At     time.Time     `json:"at"`
}

// Latest returns the receipt of the message that the agent acknowledged last in a chat; ok is false if there is none,
// or it has expired.
func (rs *Records) Latest(ctx context.Context, chat relay.ChatID) (r relay.Receipt, ok bool, err error) {
	l, ok, err := table.Find[latest](ctx, rs.db, "latest receipt", Latest, table.Key(chat))
	if err != nil || !ok {
		return r, false, err
	}
	return rs.Receipt(ctx, l.Caller, l.Event)
}

// Begin stores the receipt of a message that a person is about to be told. If there is a receipt for its event already,
// that receipt stays and is returned, and first is false.
func (rs *Records) Begin(ctx context.Context, r relay.Receipt) (stored relay.Receipt, first bool, err error) {
	r.At = rs.db.Now()
	err = rs.db.Change(ctx, "receipt", func(w *table.Writer) error {
		k := receiptKey(r.Caller, r.Event)
		old, ok, err := table.Load[relay.Receipt](w.Tx, Receipts, k)
		if stored, first = old, false; err != nil || ok {
			return err
		}
		stored, first = r, true
		return w.Put(Receipts, k, r)
	}, Size)
	return stored, first, err
}

// End stores told, the outcome of writing to a person. If told is empty it removes the receipt, so that the message may
// be tried again.
func (rs *Records) End(ctx context.Context, r relay.Receipt, told string) error {
	return rs.db.Change(ctx, "receipt", func(w *table.Writer) error {
		k := receiptKey(r.Caller, r.Event)
		if told == "" {
			return w.Delete(Receipts, k)
		}
		r.Told = told
		return w.Put(Receipts, k, r)
	}, Size)
}

// Requeued notes in the receipt of a program's event that its dead letter went back to its lane, under the id b.
func Requeued(w *table.Writer, user relay.UserID, ev relay.EventID, b relay.BufferID) error {
	p, _ := relay.ProgramOf(user)
	k := receiptKey(p.Caller, ev)
	r, ok, err := table.Load[relay.Receipt](w.Tx, Receipts, k)
	if err != nil || !ok {
		return err
	}
	r.Buffer = b
	return w.Put(Receipts, k, r)
}

// Schedule stores a message that is to be delivered at r.When. If there is a receipt for its event already, that
// receipt stays and is returned. ErrTooMany: the caller has too many scheduled messages.
func (rs *Records) Schedule(ctx context.Context, r relay.Receipt) (stored relay.Receipt, err error) {
	r.At = rs.db.Now()
	err = rs.db.Change(ctx, "scheduled receipt", func(w *table.Writer) error {
		k := receiptKey(r.Caller, r.Event)
		old, ok, err := table.Load[relay.Receipt](w.Tx, Receipts, k)
		if stored = old; err != nil || ok {
			return err
		}
		if !table.Has(w.Tx, Bucket, table.Key(r.Caller)) {
			return fmt.Errorf("caller %s: %w", r.Caller, table.ErrNotFound)
		}
		n := 0
		for k := range table.Under(w.Tx, Due, nil) {
			if len(k) > 8 && bytes.HasPrefix(k[8:], table.Prefix(r.Caller)) {
				n++
			}
		}
		if n >= MaxScheduled {
			return ErrTooMany
		}
		stored = r
		return errors.Join(w.Put(Receipts, k, r), w.Put(Due, dueKey(r), true))
	}, Size+len(r.Text))
	return stored, err
}

// Next returns the receipt of the scheduled message that is due first; ok is false if none is scheduled. It skips
// damaged receipts.
func (rs *Records) Next(ctx context.Context) (r relay.Receipt, ok bool, err error) {
	return table.First(table.Get(ctx, rs.db, "scheduled receipts", func(t *bolt.Tx) ([]relay.Receipt, error) {
		for k := range table.Under(t, Due, nil) {
			if len(k) <= 8 {
				continue
			}
			if all, err := table.AtMostOne[relay.Receipt](t, Receipts, k[8:]); err == nil && len(all) > 0 {
				return all, nil
			}
		}
		return nil, nil
	}))
}

// Unschedule drops a scheduled receipt whose message will not be delivered any more.
func (rs *Records) Unschedule(ctx context.Context, r relay.Receipt) error {
	return rs.db.Change(ctx, "scheduled receipt", func(w *table.Writer) error {
		k := receiptKey(r.Caller, r.Event)
		old, ok, err := table.Load[relay.Receipt](w.Tx, Receipts, k)
		if err != nil || !ok || old.When.IsZero() {
			return err
		}
		return errors.Join(w.Delete(Due, dueKey(old)), w.Delete(Receipts, k))
	})
}

// dropScheduled drops a caller's scheduled messages for the agent i; if i is empty, for all agents. Of a damaged
// receipt it deletes only the record in Due.
func dropScheduled(w *table.Writer, caller string, i relay.InstanceID) error {
	for _, k := range table.KeysUnder(w.Tx, Due, nil) {
		if len(k) <= 8 || !bytes.HasPrefix(k[8:], table.Prefix(caller)) {
			continue
		}
		r, ok, err := table.Load[relay.Receipt](w.Tx, Receipts, k[8:])
		ok = ok && err == nil
		if ok && i != "" && r.Agent != i {
			continue
		}
		if err := w.Delete(Due, k); err != nil {
			return err
		}
		if ok {
			if err := w.Delete(Receipts, k[8:]); err != nil {
				return err
			}
		}
	}
	return nil
}
