package store

import (
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/binding"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/grant"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/route"
	"github.com/hermes-connector/hermes-connector/store/sent"
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
		t.dropIndexed(loaded[Binding], binding.Bucket, binding.Of(i)),
		t.dropIndexed(loaded[prompt.Indexed], prompt.Bucket, prompt.Of(i)),
		t.dropIndexed(loaded[Grant], grant.Bucket, grant.Of(i)),
		t.dropAll(loaded[Conversation], bucketConversations, table.KeysUnder(t.Tx, bucketConversations, table.Prefix(i))...))
	_, err2 := t.dropCodes(LinkCode, i)
	_, err3 := table.DropWhere(t.Writer, bucketTokens, func(c Code) bool { return c.Instance == i && !c.Used })
	_, err4 := t.dropCodes(IdentityCode, i)
	_, err5 := table.DropWhere(t.Writer, sent.Bucket, func(r sent.Record) bool { return r.Instance == i })
	if err := errors.Join(err1, err2, err3, err4, err5, table.DropKeys(t.Writer, route.Bucket, route.KeysOf(t.Tx, nil, i))); err != nil {
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
