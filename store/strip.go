package store

import (
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// strip takes from i what it was given or declared, and what would enroll it or speak for it, and
// empties and closes its lane. With nothing left to take it changes nothing. The instance's record
// and its dead letters stay, for the operator to see.
func (t *tx) strip(i relay.InstanceID, now time.Time) error {
	err1 := errors.Join(
		table.DropUnder(t.Writer, bucketCommands, table.Prefix(i)),
		table.DropUnder(t.Writer, bucketCapabilities, table.Prefix(i)),
		dropIndexed[Binding](t, BucketBindings, table.IndexUnder(BucketBindings, byInstance, string(i))),
		dropIndexed[Grant](t, BucketGrants, table.IndexUnder(BucketGrants, byInstance, string(i))),
		t.dropConversations(i))
	_, err2 := t.dropCodes(LinkCode, i)
	_, err3 := table.DropWhere(t.Writer, bucketTokens, func(c Code) bool { return c.Instance == i && !c.Used })
	_, err4 := t.dropCodes(IdentityCode, i)
	_, err5 := table.DropWhere(t.Writer, BucketSent, func(r SentRecord) bool { return r.Instance == i })
	if err := errors.Join(err1, err2, err3, err4, err5, t.dropRoutes(i)); err != nil {
		return err
	}
	if err := t.buryWhere(i, DeadRemoved, now, nil); err != nil {
		return err
	}
	l, err := t.lane(i)
	if err == nil && !l.Closed {
		l.Closed = true
		t.touch(i, l)
	}
	return err
}

// dropConversations removes the conversations of i, damaged ones too.
func (t *tx) dropConversations(i relay.InstanceID) error {
	for _, k := range table.KeysUnder(t.Tx, bucketConversations, table.Prefix(i)) {
		if err := dropOne[Conversation](t, bucketConversations, k); err != nil {
			return err
		}
	}
	return nil
}
