package store

import (
	"bytes"
	"errors"

	"github.com/hermes-connector/hermes-connector/store/binding"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/grant"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// What the index finds conversations by.
const (
	byChat   = "chat"
	byParent = "parent"
)

// At is the conversation's place, and its keys in the index.
func (c Conversation) At() (string, []byte, [][]byte) {
	platform, bot, chat := string(c.Bot.Platform), string(c.Bot.ID), string(c.Chat)
	also := [][]byte{table.IndexKey(bucketConversations, byChat, platform, bot, chat, string(c.Instance))}
	if c.Parent != "" {
		also = append(also, table.IndexKey(bucketConversations, byParent, platform, string(c.Parent), bot, chat, string(c.Instance)))
	}
	return bucketConversations, conversationKey(c), also
}

// loader reads the record under k; ok is false when there is none.
type loader func(t *bolt.Tx, b string, k []byte) (v table.Indexed, ok bool, err error)

// loaded is the loader of records of the type T.
func loaded[T table.Indexed](t *bolt.Tx, b string, k []byte) (table.Indexed, bool, error) {
	v, ok, err := table.Load[T](t, b, k)
	return v, ok, err
}

// dropIndexed removes the records of b that the index has under pre.
func (t *tx) dropIndexed(load loader, b string, pre []byte) error {
	for _, k := range table.KeysUnder(t.Tx, bucketIndex, pre) {
		own, err := boltfile.Unseal(k, t.Bucket([]byte(bucketIndex)).Get(k))
		if err != nil { // the index follows from the records
			if err := t.reindex(); err != nil {
				return err
			}
			return t.dropIndexed(load, b, pre)
		}
		if err := t.dropAll(load, b, bytes.Clone(own)); err != nil {
			return err
		}
	}
	return nil
}

// dropAll removes the records under keys that are there. A damaged one goes too: it gives nobody anything, for
// every reader refuses it, and it must not keep a revocation of somebody else from taking effect.
func (t *tx) dropAll(load loader, b string, keys ...[]byte) error {
	for _, k := range keys {
		v, ok, err := load(t.Tx, b, k)
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
	for _, r := range table.Readable[Binding](t.Tx, binding.Bucket) {
		all = append(all, r)
	}
	for _, r := range table.Readable[Grant](t.Tx, grant.Bucket) {
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
