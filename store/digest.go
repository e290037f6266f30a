package store

import (
	"errors"
	"fmt"
	"log/slog"

	bolt "go.etcd.io/bbolt"
)

// A page that points to an older copy of another one, which is sound in itself, makes records go
// missing, or come back, with every checksum in order. So the database keeps a digest of all its
// records, changed with them in the same transaction, and every start compares.
const digestKey = "digest"

// digest stands for a set of records: all but itself.
type digest struct {
	N   int    `json:"n"`
	Sum uint32 `json:"sum"` // of the checksums of key and value, bit by bit
}

// with is d after a record came, or went if it was there.
func (d digest) with(k, value []byte) digest { return digest{d.N + 1, d.Sum ^ checksum(k, value)} }

func (d digest) without(k, value []byte) digest { return digest{d.N - 1, d.Sum ^ checksum(k, value)} }

// isDigest reports whether a record is the digest.
func isDigest(b bucket, k []byte) bool { return b == bucketMeta && string(k) == digestKey }

// errOtherRecords is why a file is not believed whose records are each sound.
var errOtherRecords = errors.New("the records are not those of the newest commit: some are missing or older ones are back, " +
	"and which cannot be told; compare with the last snapshot")

// misses reports whether records are missing, or too many, beyond what bad records explain.
func (f found) misses() bool {
	switch {
	case f.expected == nil: // from before there was one, or it is damaged itself, and named
		return false
	case f.expected.N != f.records.N:
		return true
	}
	return f.expected.Sum != f.records.Sum && len(f.bad) == 0
}

// damages is how much of the file is damaged.
func (f found) damages() int {
	n := len(f.bad)
	if f.misses() {
		n++
	}
	return n
}

// changed notes that the record under k of bk is about to become value; nil: to go.
func (t *tx) changed(bk *bolt.Bucket, k, value []byte) {
	if old := bk.Get(k); old != nil {
		t.delta = t.delta.without(k, old)
	}
	if value != nil {
		t.delta = t.delta.with(k, value)
	}
}

// settle brings the stored digest up to date with what this transaction changed.
func (t *tx) settle() error {
	d, ok, err := load[digest](t.Tx, bucketMeta, []byte(digestKey))
	if err != nil || !ok { // a database of before; whoever opens it counts
		return err
	}
	return putDigest(t.Tx, digest{d.N + t.delta.N, d.Sum ^ t.delta.Sum})
}

func putDigest(t *bolt.Tx, d digest) error {
	payload, err := encode(d)
	if err != nil {
		return err
	}
	k := []byte(digestKey)
	if err := t.Bucket([]byte(bucketMeta)).Put(k, seal(k, payload)); err != nil {
		return fmt.Errorf("digest: %w", err)
	}
	return nil
}

// recount stores the digest of the records that are there.
func recount(t *bolt.Tx) error {
	var d digest
	err := t.ForEach(func(name []byte, bk *bolt.Bucket) error {
		return bk.ForEach(func(k, v []byte) error {
			if !isDigest(bucket(name), k) {
				d = d.with(k, v)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return putDigest(t, d)
}

// compareDigest names what only the digest shows, and returns how much that is.
func compareDigest(got found, log *slog.Logger) int {
	if !got.misses() {
		return 0
	}
	log.Error("records are lost", "err", errOtherRecords, "records", got.records.N, "expected", got.expected.N)
	return 1
}
