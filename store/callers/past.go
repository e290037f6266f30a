package callers

import (
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// Strip drops a caller's scheduled messages for the agent i. If i is empty, it drops those for all agents, and all the
// caller's receipts and replies, too.
func Strip(w *table.Writer, c Caller, i relay.InstanceID) error {
	err := dropScheduled(w, c.Name, i)
	if err != nil || i != "" {
		return err
	}
	return errors.Join(
		table.DropUnder(w, Receipts, table.Prefix(c.Name)),
		table.DropUnder(w, Replies, table.Prefix(c.Name)))
}

// Sweep drops the expired records in Receipts, Replies and Latest. A scheduled receipt does not expire. Damaged records
// stay.
func Sweep(w *table.Writer, now time.Time) error {
	past := func(at time.Time) bool { return now.Sub(at) > Kept }
	return errors.Join(
		table.DropWhere(w, Receipts, func(r relay.Receipt) bool { return r.When.IsZero() && past(r.At) }),
		table.DropWhere(w, Latest, func(l latest) bool { return past(l.At) }),
		table.DropWhere(w, Replies, func(r Reply) bool { return past(r.At) }))
}
