// Package table stores records in the buckets of a boltfile: JSON in an envelope, or the binary form of a kind, under a
// key of parts. It does not know what the records mean.
//
// Readers take bbolt's own transaction. Keys and values are valid until the transaction ends, and a bucket must not be
// changed while a loop ranges over it.
package table

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	bolt "go.etcd.io/bbolt"
)

// ErrNotFound: there is no such record.
var ErrNotFound = errors.New("not found")

// Encode renders a record in its binary form, if it has one, else as compact JSON.
func Encode(v any) ([]byte, error) {
	if b, ok := v.(encoding.BinaryMarshaler); ok {
		return b.MarshalBinary()
	}
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false) // nobody shows these bytes in a browser
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Decode reads the record under key. It copies everything out of value. Its error says what is wrong, and quotes
// nothing.
func Decode[T any](key, value []byte) (v T, err error) {
	payload, err := boltfile.Unseal(key, value)
	if err != nil {
		return v, err
	}
	if b, ok := any(&v).(encoding.BinaryUnmarshaler); ok {
		err = b.UnmarshalBinary(payload)
	} else {
		err = json.Unmarshal(payload, &v)
	}
	if err != nil { // encoding/json's error may quote what people wrote
		err = errors.New("the record is not of its kind")
	}
	return v, err
}

// Load reads the record under k; ok is false if there is none. A damaged record is an error that names it.
func Load[T any](t *bolt.Tx, b string, k []byte) (v T, ok bool, err error) {
	value := t.Bucket([]byte(b)).Get(k)
	if value == nil {
		return v, false, nil
	}
	if v, err = Decode[T](k, value); err != nil {
		return v, false, boltfile.DamagedRecord(b, k, err)
	}
	return v, true, nil
}

// AtMostOne is Load with the record as a list, which is empty if there is none.
func AtMostOne[T any](t *bolt.Tx, b string, k []byte) ([]T, error) {
	v, ok, err := Load[T](t, b, k)
	if err != nil || !ok {
		return nil, err
	}
	return []T{v}, nil
}

// Found is Load for a record that must exist: it returns ErrNotFound if there is none.
func Found[T any](t *bolt.Tx, b string, k []byte) (T, error) {
	v, ok, err := Load[T](t, b, k)
	if err == nil && !ok {
		err = ErrNotFound
	}
	return v, err
}

// Must is Found with what in front of its error.
func Must[T any](t *bolt.Tx, b string, k []byte, what string) (T, error) {
	v, err := Found[T](t, b, k)
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return v, err
}

// Has reports whether there is something under k.
func Has(t *bolt.Tx, b string, k []byte) bool {
	found, _ := t.Bucket([]byte(b)).Cursor().Seek(k)
	return bytes.Equal(found, k)
}

// List decodes every record whose key begins with pre, in key order. An empty pre means all.
func List[T any](t *bolt.Tx, b string, pre []byte) (out []T, err error) {
	for k, value := range Under(t, b, pre) {
		v, err := Decode[T](k, value)
		if err != nil {
			return nil, boltfile.DamagedRecord(b, k, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// Readable is List over all of b without damaged records, for code that must work in spite of one.
func Readable[T any](t *bolt.Tx, b string) (out []T) {
	for k, value := range Under(t, b, nil) {
		if v, err := Decode[T](k, value); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// Under ranges over the records whose key begins with pre, except a filler.
func Under(t *bolt.Tx, b string, pre []byte) func(yield func(k, v []byte) bool) {
	return UnderFrom(t, b, pre, "")
}

// UnderFrom is Under for the keys whose rest behind pre is from or greater.
func UnderFrom(t *bolt.Tx, b string, pre []byte, from string) func(yield func(k, v []byte) bool) {
	return func(yield func(k, v []byte) bool) {
		c := t.Bucket([]byte(b)).Cursor()
		for k, v := c.Seek(append(slices.Clip(pre), from...)); bytes.HasPrefix(k, pre) && k != nil; k, v = c.Next() {
			if string(k) != Filler && !yield(k, v) {
				return
			}
		}
	}
}

// KeysUnder copies the keys that begin with pre, for loops that change the bucket.
func KeysUnder(t *bolt.Tx, b string, pre []byte) [][]byte {
	var out [][]byte
	for k := range Under(t, b, pre) {
		out = append(out, slices.Clone(k))
	}
	return out
}

// Key joins parts with a zero byte between them. A zero byte inside a part is escaped, so that no two lists of parts
// give the same key; real ids contain none and stay unchanged.
func Key[S ~string](first S, rest ...string) []byte {
	k := appendPart(make([]byte, 0, 64), string(first))
	for _, p := range rest {
		k = appendPart(append(k, 0), p)
	}
	return k
}

// Prefix returns Key with a final separator: the prefix of every key that begins with these parts and has more.
func Prefix[S ~string](first S, rest ...string) []byte {
	return append(Key(first, rest...), 0)
}

func appendPart(k []byte, part string) []byte {
	for i := range len(part) {
		switch c := part[i]; c {
		case 0:
			k = append(k, 1, 1)
		case 1:
			k = append(k, 1, 2)
		default:
			k = append(k, c)
		}
	}
	return k
}

// Number returns the number in the last eight bytes of a key.
func Number(k []byte) uint64 {
	if len(k) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(k[len(k)-8:])
}
