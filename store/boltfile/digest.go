package boltfile

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// A page that points to an older copy of another one, which is sound in itself, makes records go
// missing, or come back, with every checksum in order. So the file keeps a digest of all its
// records, changed with them in the same transaction, and every start compares. The digest names its
// commit, too: a whole tree of older pages fits its own digest.
const (
	MetaBucket = "meta" // the digest's, and whatever else the owner puts there
	digestKey  = "digest"
)

// Digest stands for a set of records: all but itself.
type Digest struct {
	N   int    `json:"n"`
	Sum uint64 `json:"sum"` // of the records' hashes
	Tx  uint64 `json:"tx"`  // the commit it was stored with; 0 in a file from before it was named
	// old is the sum of such a file: the checksums of key and value, bit by bit.
	old uint32
}

// with is d after a record came.
func (d Digest) with(k, value []byte) Digest {
	h, sum := hash(k, value)
	return Digest{N: d.N + 1, Sum: d.Sum + h, old: d.old ^ sum}
}

// without is d after a record went.
func (d Digest) without(k, value []byte) Digest {
	h, sum := hash(k, value)
	return Digest{N: d.N - 1, Sum: d.Sum - h, old: d.old ^ sum}
}

// numbered is d after the running number of a bucket changed. It has no checksum of its own.
func (d Digest) numbered(bucket string, from, to uint64) Digest {
	for n, sign := range map[uint64]uint64{from: ^uint64(0), to: 1} {
		if n != 0 && from != to {
			h, _ := hash([]byte(bucket), binary.BigEndian.AppendUint64(nil, n))
			d.Sum += sign * h
		}
	}
	return d
}

// hash is of one record. Checksums alone would not do: the same change to two records changes both in the
// same bits, which cancel out. So two of them are mixed until every bit depends on every other.
func hash(k, value []byte) (h uint64, sum uint32) {
	sum = Checksum(k, value)
	h = uint64(crc32.Update(crc32.ChecksumIEEE(k), crc32.IEEETable, value))<<32 | uint64(sum)
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31, sum
}

// isDigest reports whether a record is the digest.
func isDigest(bucket string, k []byte) bool { return bucket == MetaBucket && string(k) == digestKey }

// errOtherRecords is why a file is not believed whose records are each sound.
var errOtherRecords = errors.New("the records are not those of the newest commit: some are missing or older ones are back, " +
	"and which cannot be told")

// loadDigest is the stored digest; ok is false when there is none that can be read.
func loadDigest(k, value []byte) (d Digest, ok bool) {
	payload, err := Unseal(k, value)
	return d, err == nil && json.Unmarshal(payload, &d) == nil
}

// settle brings the stored digest up to date with what this transaction changed.
func (w *Writer) settle() error {
	k := []byte(digestKey)
	d, ok := loadDigest(k, w.Bucket([]byte(MetaBucket)).Get(k))
	if !ok {
		return fmt.Errorf("%w: bucket %s, key %q", ErrDamaged, MetaBucket, digestKey)
	}
	return putDigest(w.Tx, Digest{N: d.N + w.delta.N, Sum: d.Sum + w.delta.Sum})
}

func putDigest(t *bolt.Tx, d Digest) error {
	d.Tx = uint64(t.ID())
	payload, err := json.Marshal(d)
	if err != nil {
		return err
	}
	k := []byte(digestKey)
	if err := t.Bucket([]byte(MetaBucket)).Put(k, Seal(k, payload)); err != nil {
		return fmt.Errorf("digest: %w", err)
	}
	return nil
}

// Update changes a file that nobody else uses, in one transaction, and makes its digest anew from the records.
func Update(b *bolt.DB, fn func(*bolt.Tx) error) error {
	return b.Update(func(t *bolt.Tx) error {
		if err := fn(t); err != nil {
			return err
		}
		var d Digest
		err := t.ForEach(func(name []byte, bk *bolt.Bucket) error {
			d = d.numbered(string(name), 0, bk.Sequence())
			return bk.ForEach(func(k, v []byte) error {
				if !isDigest(string(name), k) {
					d = d.with(k, v)
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		return putDigest(t, d)
	})
}
