package store

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/files"
	"github.com/hermes-connector/hermes-connector/store/seen"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Salvaging copies records and makes none up, but for this: what the file keeps twice is made from what was
// read (the index of bindings, the lanes, the counts); and an instance or a tenant whose record is lost keeps
// its name, as far as others say whose it is, or the next one to take the name would get its messages.
// What hangs on an instance of which nobody says whose it is goes.

// salvage puts a new file in the place of temp, with all that can be read in that.
func salvage(r *Restored, temp string, o Options) (err error) {
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
	err = boltfile.Update(b, initialise)
	if err == nil {
		err = r.copyReadable(temp, b)
	}
	if err == nil {
		err = migrate(b, migrations())
	}
	if err == nil {
		err = boltfile.Update(b, func(x *bolt.Tx) error { return r.complete(edit(x), o.Now().UTC()) })
	}
	if err := errors.Join(err, b.Close()); err != nil {
		return err
	}
	return os.Rename(into, temp)
}

// copyReadable copies all records of the file from that can be read and that follow from no others.
func (r *Restored) copyReadable(from string, to *bolt.DB) error {
	c := &carrier{to: to}
	lost, err := boltfile.Salvage(from, checkFile, func(b string, k, value []byte) error {
		switch name := b; {
		case name == bucketIndex, b == bindingsTo, name == audit.Counts, name == bucketMeta && string(k) != schemaKey:
			return nil
		case name == bucketMeta: // in place of this version's
			t, err := c.into()
			if err != nil {
				return err
			}
			return t.PutSealed(name, k, value)
		case !slices.Contains(buckets(), name) && !seen.IsOld(name):
			return fmt.Errorf("%w: it has a bucket nobody made", ErrDamaged)
		default:
			return c.put(name, k, value)
		}
	})
	for _, l := range lost {
		r.Unread = append(r.Unread, strings.TrimPrefix(l.Error(), ErrDamaged.Error()+": "))
	}
	return errors.Join(err, c.commit(err == nil))
}

// complete makes a database of the records that were read.
func (r *Restored) complete(t *tx, now time.Time) error {
	if err := errors.Join(t.reindex(), t.recountLanes()); err != nil {
		return err
	}
	for _, i := range orphans(t.Tx) {
		r.Unread = append(r.Unread, fmt.Sprintf("instance %s: what it declared and its policies; it keeps its name", i.ID))
		if err := t.Put(bucketInstances, table.Key(i.ID), i); err != nil {
			return err
		}
	}
	for _, i := range table.Readable[Instance](t.Tx, bucketInstances) {
		if table.Has(t.Tx, bucketTenants, table.Key(i.Tenant)) {
			continue
		}
		if err := t.Put(bucketTenants, table.Key(i.Tenant), Tenant{ID: i.Tenant, CreatedAt: i.CreatedAt}); err != nil {
			return err
		}
	}
	if err := r.dropNobodys(t, now); err != nil {
		return err
	}
	for _, b := range []string{bucketQuarantine, audit.Rows, bucketUndecided} {
		var last uint64
		for k := range table.Under(t.Tx, b, nil) {
			last = max(last, table.Number(k))
		}
		if err := t.Bucket([]byte(b)).SetSequence(last); err != nil {
			return fmt.Errorf("bucket %s: %w", b, err)
		}
	}
	return audit.Recount(t.Writer)
}

// orphans are the instances that gateways, bindings and grants speak of and that are not there, as far
// as those know them. None is ever deleted while they are there.
func orphans(t *bolt.Tx) (out []Instance) {
	met := make(map[relay.InstanceID]bool)
	meet := func(i relay.InstanceID, of relay.TenantID, since time.Time) {
		if i == "" || of == "" || met[i] {
			return
		}
		met[i] = true
		if !table.Has(t, bucketInstances, table.Key(i)) {
			out = append(out, Instance{ID: i, Tenant: of, CreatedAt: since})
		}
	}
	for _, g := range table.Readable[Gateway](t, bucketGateways) {
		meet(g.Instance, g.Tenant, g.CreatedAt)
	}
	for _, b := range table.Readable[Binding](t, bucketBindings) {
		meet(b.Instance, b.Tenant, b.BoundAt)
	}
	for _, g := range table.Readable[Grant](t, bucketGrants) {
		meet(g.Instance, g.Tenant, g.GrantedAt)
	}
	return out
}

// dropNobodys drops what hangs on instances that are not there.
func (r *Restored) dropNobodys(t *tx, now time.Time) error {
	names := make(map[relay.InstanceID]bool)
	for k := range table.Under(t.Tx, bucketLanes, nil) {
		names[relay.InstanceID(k)] = true // names of instances hold none of the bytes a key escapes
	}
	for _, c := range table.Readable[Conversation](t.Tx, bucketConversations) {
		names[c.Instance] = true
	}
	for _, u := range table.Readable[undecidedRecord](t.Tx, bucketUndecided) {
		names[u.Instance] = true
	}
	for i := range names {
		if table.Has(t.Tx, bucketInstances, table.Key(i)) {
			continue
		}
		r.Unread = append(r.Unread, fmt.Sprintf("instance %s: all of it, for nobody says whose it is", i))
		_, err := table.DropWhere(t.Writer, bucketUndecided, func(u undecidedRecord) bool { return u.Instance == i })
		if err := errors.Join(err, t.strip(i, now), t.flush()); err != nil {
			return err
		}
		for _, b := range []string{bucketDead, bucketLanes} {
			for _, k := range table.KeysUnder(t.Tx, b, nil) {
				if string(k) != string(i) && (b == bucketLanes || len(k) < 25 || string(k[:len(k)-25]) != string(i)) {
					continue
				}
				if err := t.Delete(b, k); err != nil {
					return err
				}
			}
		}
		delete(t.lanes, i)
	}
	return nil
}
