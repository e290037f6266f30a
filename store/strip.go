package store

import (
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/authors"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// strip takes from i what it was given or declared, and what would enroll it or speak for it, and
// empties and closes its lane. With nothing left to take it changes nothing. The instance's record
// and its dead letters stay, for the operator to see.
func (t *tx) strip(i relay.InstanceID, now time.Time) error {
	err1 := errors.Join(
		table.DropUnder(t.Writer, bucketCommands, table.Prefix(i)),
		table.DropUnder(t.Writer, capability.Bucket, table.Prefix(i)),
		media.Strip(t.Writer, i, now),
		dropIndexed[Binding](t.Writer, BucketBindings, table.IndexUnder(BucketBindings, byInstance, string(i))),
		dropIndexed[prompt.Record](t.Writer, prompt.Bucket, prompt.Of(i)),
		dropIndexed[Grant](t.Writer, BucketGrants, table.IndexUnder(BucketGrants, byInstance, string(i))),
		dropAll[Conversation](t.Writer, bucketConversations, table.KeysUnder(t.Tx, bucketConversations, table.Prefix(i))...))
	_, err2 := dropCodes(t.Writer, LinkCode, i)
	_, err3 := table.DropWhere(t.Writer, bucketTokens, func(c Code) bool { return c.Instance == i && !c.Used })
	_, err4 := dropCodes(t.Writer, IdentityCode, i)
	_, err5 := table.DropWhere(t.Writer, authors.Bucket, func(r authors.Record) bool { return r.Instance == i })
	if err := errors.Join(err1, err2, err3, err4, err5, table.DropKeys(t.Writer, bucketRoutes, routeKeysOf(t.Tx, nil, i))); err != nil {
		return err
	}
	l, err := t.lane(i)
	if err != nil {
		return err
	}
	err = l.buryWhere(DeadRemoved, now, nil)
	if err == nil && !l.Closed {
		l.Closed = true
		l.touch()
	}
	return err
}
