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

// Salvaging copies records and makes none up, but for this: what the file keeps twice is made from what was
// read (the index of bindings, the lanes, the counts); and an instance or a tenant whose record is lost keeps
// its name, as far as others say whose it is, or the next one to take the name would get its messages.
// What hangs on an instance of which nobody says whose it is goes.

// salvage puts a new file in the place of temp, with all that can be read in that.
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

// copyReadable copies all records of the file from that can be read and that follow from no others.
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
		t, err := c.into() // in place of this version's
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

// complete makes a database of the records that were read.
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

// orphans are the instances that gateways, bindings and grants speak of and that are not there, as far
// as those know them. None is ever deleted while they are there.
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
