package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// A page may point to an older copy of another page, which is sound in itself. Then records are missing, or deleted
// ones are back, though every checksum fits. So the file has a digest of all its records, which changes with them in
// the same transaction, and every start compares it with the records. The digest names its commit, too: a whole tree of
// older pages fits its own digest.
const (
	MetaBucket = "meta" // the bucket of the digest, and of whatever else the owner puts there
	digestKey  = "digest"
)

// Digest is a checksum over all records of a file, except the one that holds it. It is stored as its three numbers, big
// endian.
type Digest struct {
	N   int
	Sum uint64 // of the records' hashes
	Tx  uint64 // the commit it was stored with
}

const digestSize = 24 // bytes

// with returns d after a record was added.
func (d Digest) with(k, value []byte) Digest {
	return Digest{N: d.N + 1, Sum: d.Sum + hash(k, value)}
}

// without returns d after a record was removed.
func (d Digest) without(k, value []byte) Digest {
	return Digest{N: d.N - 1, Sum: d.Sum - hash(k, value)}
}

// plus returns d after changes that add delta to it.
func (d Digest) plus(delta Digest) Digest { return Digest{N: d.N + delta.N, Sum: d.Sum + delta.Sum} }

// numbered returns d after the running number of a bucket changed. The number has no checksum of its own.
func (d Digest) numbered(bucket string, from, to uint64) Digest {
	of := func(n uint64) uint64 {
		if n == 0 {
			return 0
		}
		return hash([]byte(bucket), binary.BigEndian.AppendUint64(nil, n))
	}
	d.Sum += of(to) - of(from)
	return d
}

// hash returns the hash of one record. Checksums alone would not do: the same change to two records changes both in the
// same bits, which cancel out. So two checksums are mixed until every bit depends on every other.
func hash(k, value []byte) uint64 {
	h := uint64(crc32.Update(crc32.ChecksumIEEE(k), crc32.IEEETable, value))<<32 | uint64(Checksum(k, value))
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// isDigest reports whether a record is the digest.
func isDigest(bucket string, k []byte) bool { return bucket == MetaBucket && string(k) == digestKey }

// errOtherRecords is the error for a file whose records are each sound, but not those of the newest commit.
var errOtherRecords = errors.New("the records are not those of the newest commit: some are missing or older ones are back, " +
	"and which cannot be told")

// loadDigest returns the digest in the record value under k; ok is false if that cannot be read.
func loadDigest(k, value []byte) (d Digest, ok bool) {
	payload, err := Unseal(k, value)
	if err != nil || len(payload) != digestSize {
		return d, false
	}
	n := binary.BigEndian
	return Digest{N: int(n.Uint64(payload)), Sum: n.Uint64(payload[8:]), Tx: n.Uint64(payload[16:])}, true
}

// storedDigest returns the digest that is stored in the file.
func storedDigest(t *bolt.Tx) (Digest, error) {
	d, ok := loadDigest([]byte(digestKey), metaValue(t, digestKey))
	if !ok {
		return d, fmt.Errorf("%w: bucket %s, key %q", ErrDamaged, MetaBucket, digestKey)
	}
	return d, nil
}

// putDigest stores d in t, with the number of t as its commit.
func putDigest(t *bolt.Tx, d Digest) error {
	n, payload := binary.BigEndian, make([]byte, 0, digestSize)
	payload = n.AppendUint64(n.AppendUint64(n.AppendUint64(payload, uint64(d.N)), d.Sum), uint64(t.ID()))
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
