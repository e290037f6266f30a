package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/rekey"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const bucketBlobs = "blobs" // name -> bytes, the vault's

// Blob returns the value stored under name; ok is false if there is none. The vault keeps its wrapped key here. While
// any blob is damaged, Blob returns ErrDamaged for a name that it does not find: the damaged blob may be the one with
// that name, and nobody must make another in its place.
func (db *DB) Blob(ctx context.Context, name string) (value []byte, ok bool, err error) {
	value, err = table.Get(ctx, db.records, "blob "+name, func(t *bolt.Tx) ([]byte, error) {
		value, err := bytesAt(t, bucketBlobs, table.Key(name))
		if value != nil || err != nil {
			return value, err
		}
		for k, v := range table.Under(t, bucketBlobs, nil) {
			if _, err := boltfile.Unseal(k, v); err != nil {
				return nil, boltfile.DamagedRecord(bucketBlobs, k, err)
			}
		}
		return nil, nil
	})
	return value, value != nil, err
}

// PutBlob stores value under name, and replaces a former value.
func (db *DB) PutBlob(ctx context.Context, name string, value []byte) error {
	k := table.Key(name)
	sealed := boltfile.Seal(k, value)
	return db.change(ctx, nil, fmt.Sprintf("blob %s", name), func(t *tx) error { return t.PutSealed(bucketBlobs, k, sealed) })
}

// Reseal stores value as the blob name, and seals every record of kinds anew, in one transaction (rekey.All). The
// former values stay in the file's free pages until the database is opened again.
func (db *DB) Reseal(ctx context.Context, name string, value []byte, again rekey.Sealer, kinds ...rekey.Kind) (n rekey.Count, err error) {
	k := table.Key(name)
	err = db.change(ctx, nil, "seal every record anew", func(t *tx) error {
		if n, err = rekey.All(t.Writer, again, kinds...); err != nil {
			return err
		}
		return errors.Join(t.PutSealed(bucketBlobs, k, boltfile.Seal(k, value)), t.Squeeze())
	})
	return n, err
}

// bytesAt returns a copy of the payload under k, which is not JSON; nil if there is none.
func bytesAt(t *bolt.Tx, b string, k []byte) ([]byte, error) {
	value := t.Bucket([]byte(b)).Get(k)
	if value == nil {
		return nil, nil
	}
	payload, err := boltfile.Unseal(k, value)
	if err != nil {
		return nil, boltfile.DamagedRecord(b, k, err)
	}
	return slices.Clone(payload), nil
}
