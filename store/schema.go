package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/moved"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/route"
	"github.com/hermes-connector/hermes-connector/store/seen"
	"github.com/hermes-connector/hermes-connector/store/sent"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/undecided"
	bolt "go.etcd.io/bbolt"
)

const schemaKey = "schema"

// migration changes a database of one version into one of the next. What it makes may be there already, in a
// file that was salvaged.
type migration func(*bolt.Tx) error

// migrations lists them in order: the first makes a database of version 2 of one of version 1.
// The current version is one more than their number.
func migrations() []migration {
	return []migration{toSchema2, toSchema3, toSchema4, toSchema5, toSchema6, toSchema7}
}

// toSchema2 adds what tenants share the connector by, takes the commands out of the instances'
// records, and gives seen marks and lanes a checksum.
func toSchema2(t *bolt.Tx) error {
	for _, b := range []string{audit.Rows, bucketIdentity, route.Bucket, bucketCommands} {
		if _, err := t.CreateBucketIfNotExists([]byte(b)); err != nil {
			return fmt.Errorf("bucket %s: %w", b, err)
		}
	}
	for _, d := range seen.OldBuckets(t) {
		for _, k := range table.KeysUnder(t, d, nil) {
			if err := t.Bucket([]byte(d)).Put(k, seen.OldValue(k)); err != nil {
				return fmt.Errorf("mark in bucket %s: %w", d, err)
			}
		}
	}
	if err := moveCommands(t); err != nil {
		return err
	}
	return edit(t).recountLanes()
}

// toSchema3 adds the events that wait for a verdict, the messages that instances sent, and the chats
// that got a new id, and gives each tenant an audit list of its own.
func toSchema3(t *bolt.Tx) error {
	for _, b := range []string{undecided.Bucket, sent.Bucket, moved.Bucket} {
		if _, err := t.CreateBucketIfNotExists([]byte(b)); err != nil {
			return fmt.Errorf("bucket %s: %w", b, err)
		}
	}
	return audit.Split(t)
}

// toSchema4 makes runs of the seen marks, and one index of all there is to be found by more than its key.
func toSchema4(t *bolt.Tx) error {
	if _, err := t.CreateBucketIfNotExists([]byte(bucketIndex)); err != nil {
		return fmt.Errorf("bucket %s: %w", bucketIndex, err)
	}
	x := edit(t)
	return errors.Join(seen.FromOld(t), x.Drop(bindingsTo), x.reindex())
}

// toSchema5 leaves the root page to what every message changes, and finds threads by their parents.
func toSchema5(t *bolt.Tx) error { return errors.Join(edit(t).reindex(), table.Fill(t, cold())) }

// toSchema6 adds the capabilities that came in events.
func toSchema6(t *bolt.Tx) error { return table.Fill(t, []string{capability.Bucket}) }

// toSchema7 adds the prompts, and the files that came in events or were sent.
func toSchema7(t *bolt.Tx) error { return table.Fill(t, []string{media.Bucket, prompt.Bucket}) }

// bindingsTo was the index of bindings by instance until schema 4.
const bindingsTo = "bindings.to"

// initialise makes an empty file a database of the current version.
func initialise(t *bolt.Tx) error {
	for _, name := range buckets() {
		if _, err := t.CreateBucket([]byte(name)); err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
	}
	return errors.Join(table.Fill(t, cold()), setVersion(t, 1+len(migrations())))
}

// migrate brings b to the version that steps end in, and looks whether all buckets are there. A
// database that is not ours or from a later version is refused.
func migrate(b *bolt.DB, steps []migration) error {
	if err := advance(b, steps); err != nil {
		return err
	}
	return b.View(func(t *bolt.Tx) error {
		for _, name := range buckets() {
			if t.Bucket([]byte(name)) == nil {
				return boltfile.Advised(fmt.Errorf("%w: bucket %s is missing", ErrDamaged, name))
			}
		}
		return t.ForEach(func(name []byte, _ *bolt.Bucket) error {
			if !slices.Contains(buckets(), string(name)) {
				return boltfile.Advised(fmt.Errorf("%w: it has a bucket nobody made", ErrDamaged))
			}
			return nil
		})
	})
}

// advance is migrate's work, one transaction per step: after a crash it goes on where it was.
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
