package store

import (
	"bytes"
	"errors"
	"slices"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/callers"
	"github.com/hermes-connector/hermes-connector/store/outbox"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// The fields by which the index finds records.
const (
	byInstance = "instance"
	byChat     = "chat"
	byParent   = "parent"
)

// dropIndexed deletes the records of bucket b, which are of type T, that the index has under pre.
func dropIndexed[T table.Indexed](w *table.Writer, b string, pre []byte) error {
	for _, k := range table.KeysUnder(w.Tx, table.Index, pre) {
		own, err := boltfile.Unseal(k, w.Bucket([]byte(table.Index)).Get(k))
		if err != nil { // the index is damaged, and is made anew from the records
			if err := reindex(w); err != nil {
				return err
			}
			return dropIndexed[T](w, b, pre)
		}
		if err := dropAll[T](w, b, bytes.Clone(own)); err != nil {
			return err
		}
	}
	return nil
}

// dropAll deletes those of the records under keys that exist; they are of type T. It deletes a damaged record, too:
// that gives nobody anything, because every reader refuses it, and it must not keep a revocation of somebody else from
// taking effect.
func dropAll[T table.Indexed](w *table.Writer, b string, keys ...[]byte) error {
	for _, k := range keys {
		v, ok, err := table.Load[T](w.Tx, b, k)
		switch {
		case errors.Is(err, ErrDamaged):
			err = errors.Join(w.Delete(b, k), reindex(w))
		case ok:
			err = table.DeleteIndexed(w, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reindex makes the index agree with the records. Where it does, it writes nothing.
func reindex(w *table.Writer) error {
	return table.Reindex(w, slices.Concat(
		indexedIn[Binding](w, BucketBindings),
		indexedIn[Grant](w, BucketGrants),
		indexedIn[Conversation](w, bucketConversations),
		indexedIn[prompt.Record](w, prompt.Bucket),
		indexedIn[callers.Caller](w, callers.Bucket),
		indexedIn[outbox.Record](w, outbox.Bucket))...)
}

// indexedIn returns the records of bucket b, which are of type T, without damaged ones.
func indexedIn[T table.Indexed](w *table.Writer, b string) (all []table.Indexed) {
	for _, r := range table.Readable[T](w.Tx, b) {
		all = append(all, r)
	}
	return all
}
