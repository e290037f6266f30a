package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/reseal"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Blob is the value stored under name; ok is false when there is none. The vault keeps its
// wrapped key here: as long as there is a damaged blob, what is not found may be that one, and is
// ErrDamaged, so that nobody makes another.
func (db *DB) Blob(ctx context.Context, name string) (value []byte, ok bool, err error) {
	value, ok, err = db.bytesAt(ctx, bucketBlobs, table.Key(name))
	if err == nil && !ok {
		err = db.read(ctx, func(t *bolt.Tx) error {
			for k, v := range table.Under(t, bucketBlobs, nil) {
				if _, err := boltfile.Unseal(k, v); err != nil {
					return boltfile.DamagedRecord(bucketBlobs, k, err)
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("blob %s: %w", name, err)
	}
	return value, ok, nil
}

// PutBlob stores value under name, in place of what was there.
func (db *DB) PutBlob(ctx context.Context, name string, value []byte) error {
	k := table.Key(name)
	sealed := boltfile.Seal(k, value)
	return db.change(ctx, nil, fmt.Sprintf("blob %s", name), func(t *tx) error { return t.PutSealed(bucketBlobs, k, sealed) })
}

// Reseal stores value as the blob name, and seals every record of kinds anew, in one transaction (reseal.All). What
// it replaces stays in the file's free pages until the database is opened again.
func (db *DB) Reseal(ctx context.Context, name string, value []byte, again reseal.Sealer, kinds ...reseal.Kind) (n reseal.Count, err error) {
	k := table.Key(name)
	err = db.change(ctx, nil, "seal every record anew", func(t *tx) error {
		if n, err = reseal.All(t.Writer, again, kinds...); err != nil {
			return err
		}
		return errors.Join(t.PutSealed(bucketBlobs, k, boltfile.Seal(k, value)), t.Squeeze())
	})
	return n, err
}

// bytesAt copies a payload that is no JSON.
func (db *DB) bytesAt(ctx context.Context, b string, k []byte) (out []byte, ok bool, err error) {
	err = db.read(ctx, func(t *bolt.Tx) error {
		value := t.Bucket([]byte(b)).Get(k)
		if value == nil {
			return nil
		}
		payload, err := boltfile.Unseal(k, value)
		if err != nil {
			return boltfile.DamagedRecord(b, k, err)
		}
		out, ok = slices.Clone(payload), true
		return nil
	})
	return out, ok, err
}
