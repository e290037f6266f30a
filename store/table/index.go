package table

import (
	"bytes"
	"errors"
	"slices"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	bolt "go.etcd.io/bbolt"
)

// Index is the bucket of the index: it leads from further keys of a record to the record's own key. It is derived from
// the records, so only PutIndexed, PutNew and DeleteIndexed may change an indexed record.
const Index = "index"

// Indexed is a record with further keys.
type Indexed interface {
	// Index returns the record's bucket, its own key there, and its keys in the index.
	Index() (b string, own []byte, also [][]byte)
}

// IndexKey returns the key in the index for a record of bucket b. by names the field by which the record is found, such
// as "instance"; parts are the record's values of that field.
func IndexKey(b string, by string, parts ...string) []byte {
	return Key(b, append([]string{by}, parts...)...)
}

// IndexUnder returns the prefix of all keys that IndexKey makes of parts and further parts.
func IndexUnder(b string, by string, parts ...string) []byte {
	return append(IndexKey(b, by, parts...), 0)
}

// PutIndexed stores v and its keys in the index, in place of the former record and its keys. It writes nothing if v is
// stored already.
func PutIndexed[T Indexed](w *Writer, v T) error {
	b, own, also := v.Index()
	old, ok, err := Load[T](w.Tx, b, own)
	if err != nil {
		return err
	}
	if ok {
		_, _, had := old.Index()
		had = slices.DeleteFunc(had, func(k []byte) bool {
			return slices.ContainsFunc(also, func(a []byte) bool { return bytes.Equal(a, k) })
		})
		if err := DropKeys(w, Index, had); err != nil {
			return err
		}
	}
	return PutNew(w, v)
}

// PutNew stores v and its keys in the index. There must be no former record, or one with the same keys in the index.
func PutNew(w *Writer, v Indexed) error {
	b, own, also := v.Index()
	for _, k := range also {
		if Has(w.Tx, Index, k) {
			continue
		}
		if err := w.PutSealed(Index, k, boltfile.Seal(k, own)); err != nil {
			return err
		}
	}
	return w.PutChanged(b, own, v)
}

// DeleteIndexed removes v and its keys in the index.
func DeleteIndexed(w *Writer, v Indexed) error {
	b, own, also := v.Index()
	return errors.Join(DropKeys(w, Index, also), w.Delete(b, own))
}

// Lookup lists the records of b that the index has under pre, in the order of the index. It begins with the first key
// whose rest is greater than after, and lists at most limit records; 0 means all.
func Lookup[T any](t *bolt.Tx, b string, pre []byte, after string, limit int) (out []T, err error) {
	for k, v := range UnderFrom(t, Index, pre, after) {
		if after != "" && string(k[len(pre):]) == after {
			continue
		}
		if limit > 0 && len(out) == limit {
			break
		}
		own, err := boltfile.Unseal(k, v)
		if err != nil {
			return nil, boltfile.DamagedRecord(Index, k, err)
		}
		r, ok, err := Load[T](t, b, own)
		if err == nil && !ok {
			err = boltfile.DamagedRecord(Index, k, errors.New("it points nowhere"))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Reindex makes the index agree with the records. It writes only what differs.
func Reindex(w *Writer, records ...Indexed) error {
	want := make(map[string][]byte)
	for _, r := range records {
		_, own, also := r.Index()
		for _, k := range also {
			want[string(k)] = own
		}
	}
	for _, k := range KeysUnder(w.Tx, Index, nil) {
		own, err := boltfile.Unseal(k, w.Bucket([]byte(Index)).Get(k))
		if err == nil && bytes.Equal(own, want[string(k)]) {
			delete(want, string(k))
		} else if err := w.Delete(Index, k); err != nil {
			return err
		}
	}
	for k, own := range want {
		if err := w.PutSealed(Index, []byte(k), boltfile.Seal([]byte(k), own)); err != nil {
			return err
		}
	}
	return nil
}
