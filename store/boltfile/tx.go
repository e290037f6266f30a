package boltfile

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Tx is a write transaction as the ops of one batch share it. The embedded one is for reading.
type Tx struct {
	*bolt.Tx
	delta Digest // what the changes so far do to the file's
}

// Edit is the transaction x of somebody who has the file for himself, for Update or before it.
func Edit(x *bolt.Tx) *Tx { return &Tx{Tx: x} }

// change is one change of a file: the only kind there is while it is in use.
type change struct {
	bucket string // made when it is missing
	key    []byte // nil: of the bucket itself
	value  []byte // nil: key goes, or without a key the bucket with all that is in it
	append bool   // in key order: pages are filled to the brim
	number uint64 // not 0: the bucket's running number; with neither key nor value
}

// Put stores value under k.
func (t *Tx) Put(bucket string, k, value []byte) error {
	return t.change(change{bucket: bucket, key: k, value: value})
}

// Append is Put in key order.
func (t *Tx) Append(bucket string, k, value []byte) error {
	return t.change(change{bucket: bucket, key: k, value: value, append: true})
}

// Delete removes what is under k.
func (t *Tx) Delete(bucket string, k []byte) error { return t.change(change{bucket: bucket, key: k}) }

// Drop removes a bucket.
func (t *Tx) Drop(bucket string) error { return t.change(change{bucket: bucket}) }

// Next gives out the bucket's next running number.
func (t *Tx) Next(bucket string) (n uint64, err error) {
	if b := t.Bucket([]byte(bucket)); b != nil {
		n = b.Sequence()
	}
	n++
	return n, t.change(change{bucket: bucket, number: n})
}

// change carries c out. Whatever else is to happen with every change of the file belongs here.
func (t *Tx) change(c change) error {
	b, err := t.CreateBucketIfNotExists([]byte(c.bucket))
	switch {
	case err != nil:
	case c.number != 0:
		t.delta = t.delta.numbered(c.bucket, b.Sequence(), c.number)
		err = b.SetSequence(c.number)
	case c.key == nil:
		t.delta = t.delta.numbered(c.bucket, b.Sequence(), 0)
		err = b.ForEach(func(k, v []byte) error {
			t.delta = t.delta.without(k, v)
			return nil
		})
		err = errors.Join(err, t.DeleteBucket([]byte(c.bucket)))
	default:
		if old := b.Get(c.key); old != nil {
			t.delta = t.delta.without(c.key, old)
		}
		if c.value == nil {
			err = b.Delete(c.key)
			break
		}
		t.delta = t.delta.with(c.key, c.value)
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
