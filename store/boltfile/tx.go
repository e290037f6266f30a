package boltfile

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Writer is a write transaction that the ops of one batch share. The embedded bolt.Tx is for reading only.
type Writer struct {
	*bolt.Tx
	// Changes counts the changes so far, also those that are still to be made: code that holds a change back until
	// Settle adds one here.
	Changes int
	// Note, if set, is called with the bucket of every change.
	Note      func(bucket string)
	delta     Digest // the effect of the changes so far on the file's digest
	recording bool   // the changes are recorded
	recorded  []byte // for the log
}

// Edit makes a Writer of the transaction x, for a caller who has the file alone: in Update or before it.
func Edit(x *bolt.Tx) *Writer { return &Writer{Tx: x} }

// change is one change of a file. A file in use is changed in no other way.
type change struct {
	bucket string // made when it is missing
	key    []byte // nil: of the bucket itself
	value  []byte // nil: key is deleted or, without a key, the bucket with everything in it
	append bool   // in key order: pages are filled to the brim
	number uint64 // not 0: the bucket's running number; with neither key nor value
	made   bool   // the bucket itself is made; only in a log
}

// PutSealed stores value, an envelope for k, under k.
func (w *Writer) PutSealed(bucket string, k, value []byte) error {
	return w.change(change{bucket: bucket, key: k, value: value})
}

// AppendSealed is PutSealed in a bucket that is written in the order of its keys.
func (w *Writer) AppendSealed(bucket string, k, value []byte) error {
	return w.change(change{bucket: bucket, key: k, value: value, append: true})
}

// Delete removes the value under k.
func (w *Writer) Delete(bucket string, k []byte) error {
	return w.change(change{bucket: bucket, key: k})
}

// Drop removes a bucket.
func (w *Writer) Drop(bucket string) error { return w.change(change{bucket: bucket}) }

// Next returns the bucket's next running number, which nobody has had before.
func (w *Writer) Next(bucket string) (n uint64, err error) {
	if b := w.Bucket([]byte(bucket)); b != nil {
		n = b.Sequence()
	}
	n++
	return n, w.change(change{bucket: bucket, number: n})
}

// change carries c out. Whatever else is to happen with every change of the file belongs here.
func (w *Writer) change(c change) error {
	w.Changes++
	if w.Note != nil {
		w.Note(c.bucket)
	}
	if w.recording {
		w.record(c)
	}
	b, err := w.Bucket([]byte(c.bucket)), error(nil)
	if b == nil {
		b, err = w.CreateBucketIfNotExists([]byte(c.bucket))
	}
	switch {
	case err != nil, c.made:
	case c.number != 0:
		w.delta = w.delta.numbered(c.bucket, b.Sequence(), c.number)
		err = b.SetSequence(c.number)
	case c.key == nil:
		w.delta = w.delta.numbered(c.bucket, b.Sequence(), 0)
		err = b.ForEach(func(k, v []byte) error {
			w.delta = w.delta.without(k, v)
			return nil
		})
		err = errors.Join(err, w.DeleteBucket([]byte(c.bucket)))
	default:
		if old := b.Get(c.key); old != nil {
			w.delta = w.delta.without(c.key, old)
		}
		if c.value == nil {
			err = b.Delete(c.key)
			break
		}
		w.delta = w.delta.with(c.key, c.value)
		if c.append {
			b.FillPercent = 1
		}
		err = b.Put(c.key, c.value)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", c.bucket, err)
	}
	return nil
}
