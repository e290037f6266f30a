package store

import (
	"errors"
	"fmt"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const schemaKey = "schema"

// migration changes a database of one version into one of the next. In a salvaged file its result may exist already.
type migration func(*bolt.Tx) error

// migrations lists them in order: the first turns version 1, that of hermes-connector 0.1.0, into version 2. The
// current version is one more than their number.
func migrations() []migration { return nil }

// initialise makes an empty file a database of the current version.
func initialise(t *bolt.Tx) error {
	for _, k := range kinds {
		if _, err := t.CreateBucket([]byte(k.bucket)); err != nil {
			return fmt.Errorf("bucket %s: %w", k.bucket, err)
		}
	}
	return errors.Join(table.Fill(t, cold()), setVersion(t, 1+len(migrations())))
}

// migrate brings b to the version that the last of steps makes, and checks that all buckets are there. A database that
// is not ours or from a later version is refused.
func migrate(b *bolt.DB, steps []migration) error {
	if err := advance(b, steps); err != nil {
		return err
	}
	return boltfile.Advised(b.View(hasAll))
}

// hasAll returns nil if all buckets are there, and no others.
func hasAll(t *bolt.Tx) error {
	for _, k := range kinds {
		if t.Bucket([]byte(k.bucket)) == nil {
			return fmt.Errorf("%w: bucket %s is missing", ErrDamaged, k.bucket)
		}
	}
	return t.ForEach(func(name []byte, _ *bolt.Bucket) error {
		if !IsOurs(string(name)) {
			return fmt.Errorf("%w: it has a bucket nobody made", ErrDamaged)
		}
		return nil
	})
}

// advance does migrate's work, one transaction per step: after a crash it continues with the next step.
func advance(b *bolt.DB, steps []migration) error {
	have, err := version(b)
	if err != nil {
		return err
	}
	want := 1 + len(steps)
	if have > want {
		return fmt.Errorf("%w (schema %d, this one knows %d): "+
			"run that version, or restore a backup made with this one", ErrNewer, have, want)
	}
	for v := have; v < want; v++ {
		err := boltfile.Update(b, func(t *bolt.Tx) error {
			if err := steps[v-1](t); err != nil {
				return err
			}
			return setVersion(t, v+1)
		})
		if err != nil {
			return fmt.Errorf("migration from schema %d: %w", v, err)
		}
	}
	return nil
}

func setVersion(t *bolt.Tx, v int) error {
	payload, err := table.Encode(v)
	if err != nil {
		return err
	}
	k := []byte(schemaKey)
	return t.Bucket([]byte(BucketMeta)).Put(k, boltfile.Seal(k, payload))
}

func version(b *bolt.DB) (v int, err error) {
	err = b.View(func(t *bolt.Tx) error {
		if t.Bucket([]byte(BucketMeta)) == nil {
			return errors.New("it has no schema version")
		}
		stored, ok, err := table.Load[int](t, BucketMeta, []byte(schemaKey))
		if err != nil || !ok || stored < 1 {
			return errors.Join(errors.New("it has no readable schema version"), err)
		}
		v = stored
		return nil
	})
	if err != nil {
		return 0, boltfile.Advised(fmt.Errorf("%w: it is no hermes-connector database: %w", ErrDamaged, err))
	}
	return v, nil
}
