package store

import (
	"bytes"
	"errors"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// Bindings, grants and conversations are looked for by more than their keys, with every event and action: the
// index has further keys for them.
const (
	byInstance = "instance"
	byChat     = "chat"
	byParent   = "parent"
)

// At is the binding's place, and its keys in the index.
func (b Binding) At() (string, []byte, [][]byte) {
	also := [][]byte{table.IndexKey(BucketBindings, byInstance, string(b.Instance), string(b.Platform), string(b.User))}
	if b.DMChat != "" {
		also = append(also, table.IndexKey(BucketBindings, byChat, string(b.Platform), string(b.DMChat), string(b.Instance), string(b.User)))
	}
	return BucketBindings, bindingKey(b.Platform, b.User, b.Instance), also
}

// At is the grant's place, and its keys in the index.
func (g Grant) At() (string, []byte, [][]byte) {
	return BucketGrants, grantKey(g.Platform, g.Scope, g.Chat), [][]byte{
		table.IndexKey(BucketGrants, byInstance, string(g.Instance), string(g.Platform), string(g.Scope), string(g.Chat)),
		table.IndexKey(BucketGrants, byChat, string(g.Platform), string(g.Chat), string(g.Scope)),
	}
}

// At is the conversation's place, and its keys in the index.
func (c Conversation) At() (string, []byte, [][]byte) {
	platform, bot, chat := string(c.Bot.Platform), string(c.Bot.ID), string(c.Chat)
	also := [][]byte{table.IndexKey(bucketConversations, byChat, platform, bot, chat, string(c.Instance))}
	if c.Parent != "" {
		also = append(also, table.IndexKey(bucketConversations, byParent, platform, string(c.Parent), bot, chat, string(c.Instance)))
	}
	return bucketConversations, conversationKey(c), also
}

// dropIndexed removes the records of b that the index has under pre.
func dropIndexed[T table.Indexed](t *tx, b string, pre []byte) error {
	for _, k := range table.KeysUnder(t.Tx, bucketIndex, pre) {
		own, err := boltfile.Unseal(k, t.Bucket([]byte(bucketIndex)).Get(k))
		if err != nil { // the index follows from the records
			if err := t.reindex(); err != nil {
				return err
			}
			return dropIndexed[T](t, b, pre)
		}
		if err := drop[T](t, b, bytes.Clone(own)); err != nil {
			return err
		}
	}
	return nil
}

// drop removes the records under keys that are there. A damaged one goes too: it gives nobody anything, for
// every reader refuses it, and it must not keep a revocation of somebody else from taking effect.
func drop[T table.Indexed](t *tx, b string, keys ...[]byte) error {
	for _, k := range keys {
		v, ok, err := table.Load[T](t.Tx, b, k)
		switch {
		case errors.Is(err, ErrDamaged):
			err = errors.Join(t.Delete(b, k), t.reindex())
		case ok:
			err = table.DeleteIndexed(t.Writer, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reindex makes the index agree with the records. Where it does, it writes nothing.
func (t *tx) reindex() error {
	var all []table.Indexed
	for _, r := range table.Readable[Binding](t.Tx, BucketBindings) {
		all = append(all, r)
	}
	for _, r := range table.Readable[Grant](t.Tx, BucketGrants) {
		all = append(all, r)
	}
	for _, r := range table.Readable[Conversation](t.Tx, bucketConversations) {
		all = append(all, r)
	}
	if t.Bucket([]byte(prompt.Bucket)) != nil { // since schema 7
		for _, r := range table.Readable[prompt.Indexed](t.Tx, prompt.Bucket) {
			all = append(all, r)
		}
	}
	return table.Reindex(t.Writer, all...)
}
