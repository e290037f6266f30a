package store

import (
	"bytes"
	"errors"
	"slices"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bindings, grants and conversations are looked for by more than their keys, with every event and action.
// So the index has further keys for them, each with the record's own behind it. It follows from
// the records: whatever changes one goes through putIndexed and delIndexed.

// indexed is a record with further keys.
type indexed interface {
	// at is where the record stands, and its keys in the index.
	at() (b string, own []byte, also [][]byte)
}

// indexKey begins the keys in the index by which records of b are found, by what they have of each of a kind.
func indexKey(b string, by string, parts ...string) []byte {
	return table.Key(b, append([]string{by}, parts...)...)
}

// indexUnder is indexKey for all keys that go on behind parts.
func indexUnder(b string, by string, parts ...string) []byte {
	return append(indexKey(b, by, parts...), 0)
}

const (
	byInstance = "instance"
	byChat     = "chat"
)

func (b Binding) at() (string, []byte, [][]byte) {
	also := [][]byte{indexKey(bucketBindings, byInstance, string(b.Instance), string(b.Platform), string(b.User))}
	if b.DMChat != "" {
		also = append(also, indexKey(bucketBindings, byChat, string(b.Platform), string(b.DMChat), string(b.Instance), string(b.User)))
	}
	return bucketBindings, bindingKey(b.Platform, b.User, b.Instance), also
}

func (g Grant) at() (string, []byte, [][]byte) {
	return bucketGrants, grantKey(g.Platform, g.Scope, g.Chat), [][]byte{
		indexKey(bucketGrants, byInstance, string(g.Instance), string(g.Platform), string(g.Scope), string(g.Chat)),
		indexKey(bucketGrants, byChat, string(g.Platform), string(g.Chat), string(g.Scope)),
	}
}

func (c Conversation) at() (string, []byte, [][]byte) {
	return bucketConversations, conversationKey(c), [][]byte{
		indexKey(bucketConversations, byChat, string(c.Bot.Platform), string(c.Bot.ID), string(c.Chat), string(c.Instance)),
	}
}

// putIndexed stores v, unless it stands there already word for word.
func putIndexed[T indexed](t *tx, v T) error {
	b, own, also := v.at()
	old, ok, err := table.Load[T](t.Tx, b, own)
	if err != nil {
		return err
	}
	var had [][]byte
	if ok {
		_, _, had = old.at()
	}
	in := func(ks [][]byte, k []byte) bool {
		return slices.ContainsFunc(ks, func(o []byte) bool { return bytes.Equal(o, k) })
	}
	for _, k := range had {
		if in(also, k) {
			continue
		}
		if err := t.Delete(bucketIndex, k); err != nil {
			return err
		}
	}
	for _, k := range also {
		if in(had, k) {
			continue
		}
		if err := t.PutSealed(bucketIndex, k, boltfile.Seal(k, own)); err != nil {
			return err
		}
	}
	return t.PutChanged(b, own, v)
}

// delIndexed removes v.
func delIndexed[T indexed](t *tx, v T) error {
	b, own, also := v.at()
	for _, k := range also {
		if err := t.Delete(bucketIndex, k); err != nil {
			return err
		}
	}
	return t.Delete(b, own)
}

// lookup lists the records of b that the index has under pre, in the order of the index.
func lookup[T any](t *bolt.Tx, b string, pre []byte) (out []T, err error) {
	return lookupSome[T](t, b, pre, "", 0)
}

// lookupSome is lookup for those of which the key goes on with something greater than after, and for limit of
// them, or for all if that is 0.
func lookupSome[T any](t *bolt.Tx, b string, pre []byte, after string, limit int) (out []T, err error) {
	for k, v := range table.UnderFrom(t, bucketIndex, pre, after) {
		if after != "" && string(k[len(pre):]) == after {
			continue
		}
		if limit > 0 && len(out) == limit {
			break
		}
		own, err := boltfile.Unseal(k, v)
		if err != nil {
			return nil, boltfile.DamagedRecord(bucketIndex, k, err)
		}
		r, ok, err := table.Load[T](t, b, own)
		if err == nil && !ok {
			err = boltfile.DamagedRecord(bucketIndex, k, errors.New("it points nowhere"))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// dropIndexed removes the records of b that the index has under pre.
func dropIndexed[T indexed](t *tx, b string, pre []byte) error {
	for _, k := range table.KeysUnder(t.Tx, bucketIndex, pre) {
		own, err := boltfile.Unseal(k, t.Bucket([]byte(bucketIndex)).Get(k))
		if err != nil { // the index follows from the records
			if err := t.reindex(); err != nil {
				return err
			}
			return dropIndexed[T](t, b, pre)
		}
		if err := dropOne[T](t, b, bytes.Clone(own)); err != nil {
			return err
		}
	}
	return nil
}

// dropOne removes the record under own, if it is there. A damaged one goes too: it gives nobody anything, for
// every reader refuses it, and it must not keep a revocation of somebody else from taking effect.
func dropOne[T indexed](t *tx, b string, own []byte) error {
	v, ok, err := table.Load[T](t.Tx, b, own)
	switch {
	case errors.Is(err, ErrDamaged):
		return errors.Join(t.Delete(b, own), t.reindex())
	case ok:
		return delIndexed(t, v)
	}
	return err
}

// reindex makes the index agree with the records. Where it does, it writes nothing.
func (t *tx) reindex() error {
	want := make(map[string][]byte)
	note := func(_ string, own []byte, also [][]byte) {
		for _, k := range also {
			want[string(k)] = own
		}
	}
	for _, r := range table.Readable[Binding](t.Tx, bucketBindings) {
		note(r.at())
	}
	for _, r := range table.Readable[Grant](t.Tx, bucketGrants) {
		note(r.at())
	}
	for _, r := range table.Readable[Conversation](t.Tx, bucketConversations) {
		note(r.at())
	}
	for _, k := range table.KeysUnder(t.Tx, bucketIndex, nil) {
		own, err := boltfile.Unseal(k, t.Bucket([]byte(bucketIndex)).Get(k))
		if err == nil && bytes.Equal(own, want[string(k)]) {
			delete(want, string(k))
		} else if err := t.Delete(bucketIndex, k); err != nil {
			return err
		}
	}
	for k, own := range want {
		if err := t.PutSealed(bucketIndex, []byte(k), boltfile.Seal([]byte(k), own)); err != nil {
			return err
		}
	}
	return nil
}
