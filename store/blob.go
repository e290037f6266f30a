package store

import (
	"context"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// Blob is the value stored under name; ok is false when there is none. The vault keeps its
// wrapped key here: as long as there is a damaged blob, what is not found may be that one, and is
// ErrDamaged, so that nobody makes another.
func (db *DB) Blob(ctx context.Context, name string) (value []byte, ok bool, err error) {
	value, ok, err = db.bytesAt(ctx, bucketBlobs, key(name))
	if err == nil && !ok {
		err = db.read(ctx, func(t *bolt.Tx) error {
			for k, v := range under(t, bucketBlobs, nil) {
				if err := checkRecord(bucketBlobs, k, v); err != nil {
					return damaged(bucketBlobs, k, err)
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
	k := key(name)
	sealed := seal(k, value)
	return db.change(ctx, fmt.Sprintf("blob %s", name), func(t *tx) error { return t.putSealed(bucketBlobs, k, sealed) })
}

// bytesAt copies a payload that is no JSON.
func (db *DB) bytesAt(ctx context.Context, b bucket, k []byte) (out []byte, ok bool, err error) {
	err = db.read(ctx, func(t *bolt.Tx) error {
		value := t.Bucket([]byte(b)).Get(k)
		if value == nil {
			return nil
		}
		payload, err := unseal(k, value)
		if err != nil {
			return damaged(b, k, err)
		}
		out, ok = slices.Clone(payload), true
		return nil
	})
	return out, ok, err
}
