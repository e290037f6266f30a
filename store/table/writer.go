package table

import (
	"bytes"
	"fmt"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	bolt "go.etcd.io/bbolt"
)

// Writer is a write transaction. Reads use the embedded bbolt transaction; changes must use the methods of the Writer.
type Writer struct{ *boltfile.Writer }

// Edit returns the Writer of the transaction x, for a caller who has the file to itself.
func Edit(x *bolt.Tx) *Writer { return &Writer{boltfile.Edit(x)} }

// Records returns w, for code that has the Batch that embeds it.
func (w *Writer) Records() *Writer { return w }

// Put stores v under k, in the form that Encode gives it, in an envelope.
func (w *Writer) Put(b string, k []byte, v any) error {
	value, err := sealed(b, k, v)
	if err != nil {
		return err
	}
	return w.PutSealed(b, k, value)
}

// PutChanged is Put, but writes nothing if the stored record is the same byte for byte.
func (w *Writer) PutChanged(b string, k []byte, v any) error {
	value, err := sealed(b, k, v)
	if err != nil || bytes.Equal(w.Bucket([]byte(b)).Get(k), value) {
		return err
	}
	return w.PutSealed(b, k, value)
}

// Append is Put in a bucket that is written in the order of its keys.
func (w *Writer) Append(b string, k []byte, v any) error {
	value, err := sealed(b, k, v)
	if err != nil {
		return err
	}
	return w.AppendSealed(b, k, value)
}

func sealed(b string, k []byte, v any) ([]byte, error) {
	payload, err := Encode(v)
	if err != nil {
		return nil, fmt.Errorf("encode for bucket %s: %w", b, err)
	}
	return boltfile.Seal(k, payload), nil
}

// DropUnder deletes the records whose key begins with pre.
func DropUnder(w *Writer, b string, pre []byte) error { return DropKeys(w, b, KeysUnder(w.Tx, b, pre)) }

// DropKeys deletes the records under keys.
func DropKeys(w *Writer, b string, keys [][]byte) error {
	for _, k := range keys {
		if err := w.Delete(b, k); err != nil {
			return err
		}
	}
	return nil
}

// DropWhere deletes the records of b that which selects. It skips damaged records: such a record gives nobody anything,
// because every reader refuses it, and it must not keep a revocation of somebody else from taking effect.
func DropWhere[T any](w *Writer, b string, which func(T) bool) error {
	var keys [][]byte
	for k, value := range Under(w.Tx, b, nil) {
		if v, err := Decode[T](k, value); err == nil && which(v) {
			keys = append(keys, bytes.Clone(k))
		}
	}
	return DropKeys(w, b, keys)
}
