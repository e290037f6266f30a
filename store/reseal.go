package store

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
)

// SealedValue is a value within a record that a vault sealed for the place (Bucket, Key).
type SealedValue struct {
	Bucket, Key string
	Bytes       *[]byte
}

// SealedKind is a kind of record with sealed values.
type SealedKind struct {
	bucket string
	// spare: a record of which a value does not open is dropped and not refused.
	spare bool
	// anew is the record value with its sealed values replaced, as JSON can hold it.
	anew func(k, value []byte, again Sealer) (any, error)
}

// Sealer makes the sealed bytes of a place anew.
type Sealer func(bucket, key string, sealed []byte) ([]byte, error)

// SealedRecords are the records T of bucket b; values lists what is sealed in one. With spare those that do not open
// are dropped.
func SealedRecords[T any](b string, spare bool, values func(*T) []SealedValue) SealedKind {
	return SealedKind{b, spare, func(k, value []byte, again Sealer) (any, error) {
		r, err := table.Decode[T](k, value)
		if err != nil {
			return nil, boltfile.DamagedRecord(b, k, err)
		}
		for _, v := range values(&r) {
			if *v.Bytes, err = again(v.Bucket, v.Key, *v.Bytes); err != nil {
				return nil, fmt.Errorf("bucket %s, record %q, value %q: %w", b, k, v.Key, err)
			}
		}
		return r, nil
	}}
}

// Resealed counts the records that a Reseal sealed anew, and those it dropped because they did not open.
type Resealed struct {
	Records int `json:"records"`
	Dropped int `json:"dropped"`
}

// Reseal stores value as the blob name, and every record of kinds with its values as again makes them, in one
// transaction. An error of again's prevents all of it and comes back wrapped, with the record's name.
func (db *DB) Reseal(ctx context.Context, name string, value []byte, again Sealer, kinds ...SealedKind) (n Resealed, err error) {
	k := table.Key(name)
	err = db.change(ctx, nil, "seal every record anew", func(t *tx) error {
		n = Resealed{}
		for _, kind := range kinds {
			if err := t.reseal(kind, again, &n); err != nil {
				return err
			}
		}
		return t.PutSealed(bucketBlobs, k, boltfile.Seal(k, value))
	})
	return n, err
}

func (t *tx) reseal(kind SealedKind, again Sealer, n *Resealed) error {
	for _, k := range table.KeysUnder(t.Tx, kind.bucket, nil) {
		r, err := kind.anew(k, t.Bucket([]byte(kind.bucket)).Get(k), again)
		switch {
		case err == nil:
			err = t.Put(kind.bucket, k, r)
			n.Records++
		case kind.spare:
			err = t.Delete(kind.bucket, k)
			n.Dropped++
		}
		if err != nil {
			return err
		}
	}
	return nil
}
