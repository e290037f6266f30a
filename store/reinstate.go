package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// A damaged record of a tenant, an instance or a gateway must not just go: its name would be free for
// others, and what hangs on the name theirs. Nor may it stay: no list and no copy could be made,
// no gateway revoked, and nothing taken from a bot for whom the instance is a candidate. So it is
// made anew from what other records say. An instance loses what it declared and its policies,
// for which nothing stands is the careful reading. A gateway loses its credential, which stands
// nowhere else: it becomes a revoked one, and keeps its name until the operator enrolls it again.
// One whose key alone is damaged still says its name, and loses nothing.

// meant is the key that the damaged record r was written under, if nothing else of it is damaged: some
// say themselves where they belong, and the checksum fits that. nil: it cannot be told.
func meant(t *bolt.Tx, r badRecord) []byte {
	bk := t.Bucket([]byte(r.bucket))
	value := bk.Get(r.key)
	if len(value) <= envelopeSize {
		return nil
	}
	var k []byte
	switch says := value[envelopeSize:]; r.bucket {
	case bucketTenants:
		k = saysKey(says, func(v Tenant) []byte { return key(v.ID) })
	case bucketInstances:
		k = saysKey(says, func(v Instance) []byte { return key(v.ID) })
	case bucketGateways:
		k = saysKey(says, func(v Gateway) []byte { return key(v.ID) })
	case bucketBindings:
		k = saysKey(says, func(v Binding) []byte { return bindingKey(v.Platform, v.User, v.Instance) })
	case bucketGrants:
		k = saysKey(says, func(v Grant) []byte { return grantKey(v.Platform, v.Scope, v.Chat) })
	}
	if len(k) == 0 || bk.Get(k) != nil {
		return nil
	}
	if _, err := unseal(k, value); err != nil {
		return nil
	}
	return k
}

func saysKey[T any](payload []byte, of func(T) []byte) []byte {
	var v T
	if json.Unmarshal(payload, &v) != nil {
		return nil
	}
	return of(v)
}

// putBack gives r its key back, if that is known. What was damaged goes to the quarantine.
func (t *tx) putBack(r badRecord, now time.Time) (back bool, err error) {
	if r.meant == nil {
		return false, nil
	}
	value := bytes.Clone(t.Bucket([]byte(r.bucket)).Get(r.key))
	if err := t.toQuarantine(r, now); err != nil {
		return false, err
	}
	return true, t.putSealed(r.bucket, r.meant, value)
}

// remade is a record that was made anew.
type remade struct {
	bucket bucket
	key    string
	lost   string // what nobody else knew
}

// reinstate makes anew what it can of the damaged records bad, and of the instances that others
// speak of and that are not there. What was damaged goes to the quarantine.
func (t *tx) reinstate(bad []badRecord, now time.Time) (all []remade, err error) {
	put := func(b bucket, k []byte, v any, lost string) error {
		all = append(all, remade{b, string(k), lost})
		if was := bytes.Clone(t.Bucket([]byte(b)).Get(k)); was != nil {
			q := Quarantined{At: now, Err: fmt.Sprintf("the record %s of bucket %s is damaged", k, b), Raw: was}
			if err := t.quarantine(q); err != nil {
				return err
			}
		}
		return t.put(b, k, v)
	}
	for _, r := range bad {
		if relay.CheckName(string(r.key)) != nil {
			continue // no name anybody could have
		}
		switch r.bucket {
		case bucketTenants:
			err = put(r.bucket, r.key, Tenant{ID: relay.TenantID(r.key), CreatedAt: now}, "when it was made")
		case bucketGateways:
			g := Gateway{ID: relay.GatewayID(r.key), CreatedAt: now, Revoked: true}
			if i, ok, _ := load[Instance](t.Tx, bucketInstances, r.key); ok { // it mostly has the gateway's name
				g.Instance, g.Tenant = i.ID, i.Tenant
			}
			err = put(r.bucket, r.key, g, "its credentials: revoked until it is enrolled again")
		}
		if err != nil {
			return nil, err
		}
	}
	known := orphans(t.Tx)
	for _, r := range bad {
		if r.bucket == bucketInstances && t.nobodys(r.key, known) {
			if err := t.toQuarantine(r, now); err != nil {
				return nil, err
			}
		}
	}
	for _, i := range known {
		if err := put(bucketInstances, key(i.ID), i, "its wake URL and policies"); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// nobodys reports whether nothing hangs on the damaged instance under k: no gateway of that name, no
// lane, and nobody among known. So it is when the damage is in its key.
func (t *tx) nobodys(k []byte, known []Instance) bool {
	return !has(t.Tx, bucketGateways, k) && !has(t.Tx, bucketLanes, k) &&
		!slices.ContainsFunc(known, func(i Instance) bool { return bytes.Equal(key(i.ID), k) })
}

// orphans are the instances that gateways, bindings and grants speak of and that cannot be read, as far
// as those know them. None is ever deleted while they are there.
func orphans(t *bolt.Tx) (out []Instance) {
	met := make(map[relay.InstanceID]bool)
	meet := func(i relay.InstanceID, of relay.TenantID, since time.Time) {
		if i == "" || of == "" || met[i] {
			return
		}
		met[i] = true
		if _, ok, _ := load[Instance](t, bucketInstances, key(i)); !ok {
			out = append(out, Instance{ID: i, Tenant: of, CreatedAt: since})
		}
	}
	for _, g := range readable[Gateway](t, bucketGateways) {
		meet(g.Instance, g.Tenant, g.CreatedAt)
	}
	for _, b := range readable[Binding](t, bucketBindings) {
		meet(b.Instance, b.Tenant, b.BoundAt)
	}
	for _, g := range readable[Grant](t, bucketGrants) {
		meet(g.Instance, g.Tenant, g.GrantedAt)
	}
	return out
}
