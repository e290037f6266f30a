package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/binding"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/entry"
	"github.com/hermes-connector/hermes-connector/store/grant"
	"github.com/hermes-connector/hermes-connector/store/media"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/route"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/undecided"
	bolt "go.etcd.io/bbolt"
)

// What is here is for store/restore, which makes one database of others while nobody has them open.

// Derived reports whether a record follows from others, so that it is made anew and not copied.
func Derived(bucket string, k []byte) bool {
	return bucket == bucketIndex || bucket == audit.Counts || bucket == BucketMeta && string(k) != schemaKey
}

// IsOurs reports whether a database of this version has the bucket.
func IsOurs(bucket string) bool { return slices.Contains(buckets(), bucket) }

// Upgrade brings b to this version, and looks whether all buckets are there.
func Upgrade(b *bolt.DB) error { return migrate(b, migrations()) }

// Held is a delivery that somebody has not got: an entry, a dead letter or something undecided.
type Held struct {
	Instance relay.InstanceID
	About    About
	Dead     relay.BufferID // of a dead letter
}

// HeldIn lists what the database holds. whole: each of them could be read. A database that is not ours or of a
// later version is an error.
func HeldIn(b *bolt.DB) (all []Held, whole bool, err error) {
	v, err := version(b)
	if err == nil && v > 1+len(migrations()) {
		err = fmt.Errorf("%w; run that version", ErrNewer)
	}
	if err != nil {
		return nil, false, err
	}
	whole = true
	err = b.View(func(t *bolt.Tx) error {
		for _, name := range []string{entry.Bucket, bucketLanes, entry.DeadBucket, undecided.Bucket, BucketGateways, binding.Bucket, grant.Bucket} {
			if t.Bucket([]byte(name)) == nil {
				return fmt.Errorf("%w: bucket %s is missing", ErrDamaged, name)
			}
		}
		each := func(b string, read func(k, v []byte) (Held, error)) {
			for k, v := range table.Under(t, b, nil) {
				if h, err := read(k, v); err == nil && h.Instance != "" {
					all = append(all, h)
				} else {
					whole = false
				}
			}
		}
		each(entry.Bucket, func(k, v []byte) (Held, error) {
			e, _, err := entry.Decode(k, v)
			return Held{Instance: instanceOf(k, 8), About: e.About}, err
		})
		each(entry.DeadBucket, func(k, v []byte) (Held, error) {
			_, e, _, err := entry.DecodeDead(k, v)
			id, _ := entry.DeadID(k)
			return Held{Instance: instanceOf(k, 24), About: e.About, Dead: id}, err
		})
		each(undecided.Bucket, func(k, v []byte) (Held, error) {
			u, err := undecided.Decode(k, v)
			if err != nil {
				return Held{}, err
			}
			return Held{Instance: u.Instance, About: entry.Of(*u.About())}, nil
		})
		return nil
	})
	return all, whole, err
}

// instanceOf is the instance in a key that goes on with a tail of so many bytes. Names of instances hold none of
// the bytes that a key escapes.
func instanceOf(k []byte, tail int) relay.InstanceID {
	return relay.InstanceID(k[:max(0, len(k)-tail-1)])
}

// Edit is a write transaction of somebody who has the file for himself.
type Edit struct{ *tx }

// NewEdit is the transaction x.
func NewEdit(x *bolt.Tx) Edit { return Edit{edit(x)} }

// Move is MoveChat, as of a time.
func (e Edit) Move(m Move, at time.Time) error { return e.move(m, at) }

// RenewEpochs gives every lane a new epoch.
func (e Edit) RenewEpochs() error {
	for _, k := range table.KeysUnder(e.Tx, bucketLanes, nil) {
		l, err := table.Decode[lane](k, e.Bucket([]byte(bucketLanes)).Get(k))
		if err != nil {
			return boltfile.DamagedRecord(bucketLanes, k, err)
		}
		if l.Epoch == 0 { // never used
			continue
		}
		l.Epoch = newEpoch()
		if err := e.Put(bucketLanes, k, l); err != nil {
			return err
		}
	}
	return nil
}

// Derive makes what follows from the records that are there.
func (e Edit) Derive() error {
	for _, b := range []string{bucketQuarantine, audit.Rows, undecided.Bucket} {
		var last uint64
		for k := range table.Under(e.Tx, b, nil) {
			last = max(last, table.Number(k))
		}
		if err := e.Bucket([]byte(b)).SetSequence(last); err != nil {
			return fmt.Errorf("bucket %s: %w", b, err)
		}
	}
	return errors.Join(e.reindex(), e.recountLanes(), audit.Recount(e.Writer), e.recountFiles(e.clock()))
}

// ownKeys tell, by bucket, whether a record says itself that it stands under k. Damage that has a page stand in another
// bucket's place leaves each of its records sound.
var ownKeys = map[string]func(k, value []byte) bool{
	BucketTenants:       own(func(r Tenant) []byte { return table.Key(r.ID) }),
	BucketInstances:     own(func(r Instance) []byte { return table.Key(r.ID) }),
	BucketGateways:      own(func(r Gateway) []byte { return table.Key(r.ID) }),
	binding.Bucket:      own(func(r Binding) []byte { return binding.Key(r.Platform, r.User, r.Instance) }),
	grant.Bucket:        own(func(r Grant) []byte { return grant.Key(r.Platform, r.Scope, r.Chat) }),
	route.Bucket:        own(route.Key),
	bucketConversations: own(conversationKey),
	media.Bucket:        own(func(r media.Record) []byte { return media.Key(r.ID) }),
	prompt.Bucket:       own(prompt.Record.Key),
	capability.Bucket:   own(func(r capability.Record) []byte { return capability.Key(r.Instance, r.Bot, r.Event) }),
}

func own[T any](key func(T) []byte) func(k, value []byte) bool {
	return func(k, value []byte) bool {
		r, err := table.Decode[T](k, value)
		return err == nil && bytes.Equal(key(r), k)
	}
}

// DropMisplaced drops the records that are not their bucket's own, and returns a line about each.
func (e Edit) DropMisplaced() (gone []string, err error) {
	for b, isOwn := range ownKeys {
		for _, k := range table.KeysUnder(e.Tx, b, nil) {
			if isOwn(k, e.Bucket([]byte(b)).Get(k)) {
				continue
			}
			gone = append(gone, fmt.Sprintf("bucket %s, record %q: it is another bucket's", b, k))
			if err := e.Delete(b, k); err != nil {
				return nil, err
			}
		}
	}
	return gone, nil
}

// DropStrays drops what hangs on instances that are not there, and returns those.
func (e Edit) DropStrays(now time.Time) (gone []relay.InstanceID, err error) {
	names := make(map[relay.InstanceID]bool)
	for k := range table.Under(e.Tx, bucketLanes, nil) {
		names[relay.InstanceID(k)] = true
	}
	for _, c := range table.Readable[Conversation](e.Tx, bucketConversations) {
		names[c.Instance] = true
	}
	for _, u := range table.Readable[undecided.Record](e.Tx, undecided.Bucket) {
		names[u.Instance] = true
	}
	for _, c := range table.Readable[capability.Record](e.Tx, capability.Bucket) {
		names[c.Instance] = true
	}
	for _, p := range table.Readable[prompt.Record](e.Tx, prompt.Bucket) {
		names[p.Instance] = true
	}
	delete(names, "") // what seems undecided may be another bucket's
	for i := range names {
		if table.Has(e.Tx, BucketInstances, table.Key(i)) {
			continue
		}
		gone = append(gone, i)
		_, err := table.DropWhere(e.Writer, undecided.Bucket, func(u undecided.Record) bool { return u.Instance == i })
		err = errors.Join(err, e.strip(i, now), e.flush(),
			table.DropUnder(e.Writer, entry.DeadBucket, table.Prefix(i)), e.Delete(bucketLanes, table.Key(i)))
		if err != nil {
			return nil, err
		}
		delete(e.lanes, i)
	}
	return gone, nil
}
