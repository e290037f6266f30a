package callers

import (
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// Strip drops a caller's receipts and its scheduled messages for one agent; or, if i is empty, for all, and then its
// replies, too.
func Strip(w *table.Writer, c Caller, i relay.InstanceID) error {
	err := dropScheduled(w, c.Name, i)
	if err != nil || i != "" {
		return err
	}
	return errors.Join(
		table.DropUnder(w, Receipts, table.Prefix(c.Name)),
		table.DropUnder(w, Replies, table.Prefix(c.Name)))
}

// Past reports whether a receipt is past its time.
func Past(r relay.Receipt, now time.Time) bool { return r.When.IsZero() && now.Sub(r.At) > Kept }

// PastLatest reports whether an agent took its last message so long ago that its receipt is gone.
func (l latest) past(now time.Time) bool { return now.Sub(l.At) > Kept }

// Swept counts the expired records that were dropped.
type Swept struct{ Receipts, Replies int }

// Sweep drops expired records. Damaged ones stay.
func Sweep(w *table.Writer, now time.Time) (n Swept, err error) {
	if n.Receipts, err = dropPast(w, Receipts, func(r relay.Receipt) bool { return Past(r, now) }); err != nil {
		return n, err
	}
	if _, err = dropPast(w, Latest, func(l latest) bool { return l.past(now) }); err != nil {
		return n, err
	}
	n.Replies, err = dropPast(w, Replies, func(r Reply) bool { return now.Sub(r.At) > Kept })
	return n, err
}

// dropPast drops the records of b that are past their time.
func dropPast[T any](w *table.Writer, b string, past func(T) bool) (n int, err error) {
	var keys [][]byte
	for k, v := range table.Under(w.Tx, b, nil) {
		if r, err := table.Decode[T](k, v); err == nil && past(r) {
			keys = append(keys, append([]byte(nil), k...))
		}
	}
	return len(keys), table.DropKeys(w, b, keys)
}
