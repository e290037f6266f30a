package restore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/files"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Salvaging copies records and invents none, with two exceptions. What the file holds twice is derived from the records
// that were read: the index of bindings, the lanes, the counts. An instance or a tenant whose record is lost is made
// anew under its name, if other records name it; otherwise the next instance or tenant with that name would get its
// messages. Records of an instance whose tenant no record names are dropped.

// salvage replaces the file temp by a new file, which has all records of temp that can be read.
func salvage(r *Restored, temp string, o boltfile.Options) (err error) {
	if err := r.dated(temp); err != nil {
		return err
	}
	f, err := files.Temp(temp, boltfile.Leftovers(temp))
	if err != nil {
		return err
	}
	files.Give(f, temp)
	into := f.Name()
	defer os.Remove(into)
	b, err := openAlone(into, o)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	err = boltfile.Update(b, o.Format.Fill)
	if err == nil {
		err = r.copyReadable(temp, b)
	}
	if err == nil {
		err = store.Upgrade(b)
	}
	if err == nil {
		err = boltfile.Update(b, func(x *bolt.Tx) error { return r.complete(store.NewEdit(x), o.Now().UTC()) })
	}
	if err := errors.Join(err, b.Close()); err != nil {
		return err
	}
	return os.Rename(into, temp)
}

// copyReadable copies the records of the file from that can be read, except those that are derived from others.
func (r *Restored) copyReadable(from string, to *bolt.DB) error {
	c := &carrier{to: to}
	lost, err := boltfile.Salvage(from, func(b string, k, value []byte) error {
		switch {
		case store.Derived(b, k):
			return nil
		case !store.IsOurs(b):
			return fmt.Errorf("%w: it has a bucket nobody made", store.ErrDamaged)
		case b != store.BucketMeta:
			return c.put(b, k, value)
		}
		t, err := c.into() // the record replaces the one that Fill wrote
		if err != nil {
			return err
		}
		return t.PutSealed(b, k, value)
	})
	for _, l := range lost {
		r.Unread = append(r.Unread, strings.TrimPrefix(l.Error(), store.ErrDamaged.Error()+": "))
	}
	return errors.Join(err, c.commit(err == nil))
}

// complete derives the other records from those that were read.
func (r *Restored) complete(t store.Edit, now time.Time) error {
	misplaced, err := t.DropMisplaced()
	if err := errors.Join(err, t.Derive()); err != nil {
		return err
	}
	r.Unread = append(r.Unread, misplaced...)
	for _, i := range orphans(t.Tx) {
		r.Unread = append(r.Unread, fmt.Sprintf("instance %s: what it declared and its policies; it keeps its name", i.ID))
		if err := t.Put(store.BucketInstances, table.Key(i.ID), i); err != nil {
			return err
		}
	}
	for _, i := range table.Readable[store.Instance](t.Tx, store.BucketInstances) {
		if table.Has(t.Tx, store.BucketTenants, table.Key(i.Tenant)) {
			continue
		}
		if err := t.Put(store.BucketTenants, table.Key(i.Tenant), store.Tenant{ID: i.Tenant, CreatedAt: i.CreatedAt}); err != nil {
			return err
		}
	}
	gone, err := t.DropStrays(now)
	for _, i := range gone {
		r.Unread = append(r.Unread, fmt.Sprintf("instance %s: all of it, for nobody says whose it is", i))
	}
	return err
}

// orphans returns the instances that gateways, bindings and grants name but that have no record, made from what those
// records say. Instances are never deleted while such records are there.
func orphans(t *bolt.Tx) (out []store.Instance) {
	met := make(map[relay.InstanceID]bool)
	meet := func(i relay.InstanceID, of relay.TenantID, since time.Time) {
		if i == "" || of == "" || met[i] {
			return
		}
		met[i] = true
		if !table.Has(t, store.BucketInstances, table.Key(i)) {
			out = append(out, store.Instance{ID: i, Tenant: of, CreatedAt: since})
		}
	}
	for _, g := range table.Readable[store.Gateway](t, store.BucketGateways) {
		meet(g.Instance, g.Tenant, g.CreatedAt)
	}
	for _, b := range table.Readable[store.Binding](t, store.BucketBindings) {
		meet(b.Instance, b.Tenant, b.BoundAt)
	}
	for _, g := range table.Readable[store.Grant](t, store.BucketGrants) {
		meet(g.Instance, g.Tenant, g.GrantedAt)
	}
	return out
}
