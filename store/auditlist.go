package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// The rows of the audit list stand under their tenant and a number that runs through all of them, so
// that one tenant's many rows push out none of another's, and the order over tenants is known
// whatever the clock did. Rows without a tenant are the operator's and the connector's, and are kept as
// one more. A count says how many rows there are of a tenant, and of each credential in it; what is
// too many goes, the oldest first. A count that turns out wrong is made anew: no change may fail for it.

// auditCount counts rows: of a tenant, or of one credential in it.
type auditCount struct {
	N int `json:"n"`
	// From is a number that no row of the credential is below, so that its oldest is found without
	// looking at the same rows of others again and again.
	From uint64 `json:"from,omitempty"`
}

// auditor is whose rows are counted together, within a tenant: the zero Actor is everybody.
type auditor struct {
	tenant relay.TenantID
	actor  Actor
}

// credential reports whether a is one that could fill the list by itself.
func (a Actor) credential() bool {
	return a.Kind == ActorGateway || a.Kind == ActorJWT || a.Kind == ActorIdentity
}

func (a auditor) key() []byte {
	if a.actor == (Actor{}) {
		return table.Prefix(a.tenant)
	}
	return table.Key(a.tenant, string(a.actor.Kind), a.actor.Name)
}

// limit is how many rows are kept.
func (a auditor) limit() int {
	if a.actor == (Actor{}) {
		return maxAudit
	}
	return maxCredential
}

func auditKeyOf(tenant relay.TenantID, n uint64) []byte {
	return binary.BigEndian.AppendUint64(table.Prefix(tenant), n)
}

// countedWith are those e counts for.
func (e AuditEntry) countedWith() []auditor {
	all := []auditor{{tenant: e.Tenant}}
	if e.Actor.credential() {
		all = append(all, auditor{e.Tenant, e.Actor})
	}
	return all
}

// audit adds a row, and drops the oldest past a limit.
func (t *tx) audit(e AuditEntry) error {
	n, err := t.Next(bucketAudit)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if err := t.Append(bucketAudit, auditKeyOf(e.Tenant, n), e); err != nil {
		return err
	}
	for _, of := range e.countedWith() {
		c, _, err := table.Load[auditCount](t.Tx, bucketAuditCounts, of.key())
		if err != nil || c.N > of.limit() {
			if err := t.recountAudit(); err != nil {
				return err
			}
			break // the new row is there already
		}
		c.N++
		if err := t.Put(bucketAuditCounts, of.key(), c); err != nil {
			return err
		}
	}
	// The credential's own go first.
	for _, of := range slices.Backward(e.countedWith()) {
		if err := t.trimAudit(of); err != nil {
			return err
		}
	}
	return nil
}

// trimAudit drops the oldest rows of a tenant, or of a credential in it, until they are within the limit.
func (t *tx) trimAudit(of auditor) error {
	for {
		c, _, err := table.Load[auditCount](t.Tx, bucketAuditCounts, of.key())
		if err == nil && c.N <= of.limit() {
			return nil
		}
		k, e := t.oldestRow(of, c.From)
		if err != nil || k == nil {
			return t.recountAudit()
		}
		if err := t.dropRow(k, e); err != nil {
			return err
		}
	}
}

// oldestRow is the first row of a tenant, or of a credential in it, from a number on; nil when there is
// none. A damaged one of a tenant comes back without its entry.
func (t *tx) oldestRow(of auditor, from uint64) (k []byte, e AuditEntry) {
	pre := table.Prefix(of.tenant)
	c := t.Bucket([]byte(bucketAudit)).Cursor()
	for k, v := c.Seek(auditKeyOf(of.tenant, from)); bytes.HasPrefix(k, pre); k, v = c.Next() {
		e, err := table.Decode[AuditEntry](k, v)
		if of.actor == (Actor{}) || err == nil && e.Actor == of.actor {
			return bytes.Clone(k), e
		}
	}
	return nil, AuditEntry{}
}

// dropRow drops the row e under k, which is the oldest of somebody it counts for.
func (t *tx) dropRow(k []byte, e AuditEntry) error {
	if err := t.Delete(bucketAudit, k); err != nil {
		return err
	}
	e.Tenant = tenantOf(k) // it may be damaged
	for _, of := range e.countedWith() {
		c, _, err := table.Load[auditCount](t.Tx, bucketAuditCounts, of.key())
		if err != nil {
			return t.recountAudit()
		}
		if c.N--; c.N <= 0 {
			err = t.Delete(bucketAuditCounts, of.key())
		} else {
			if of.actor != (Actor{}) {
				c.From = table.Number(k) + 1
			}
			err = t.Put(bucketAuditCounts, of.key(), c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tenantOf is the tenant in the key of a row. Names of tenants hold none of the bytes a key escapes.
func tenantOf(k []byte) relay.TenantID { return relay.TenantID(k[:max(0, len(k)-9)]) }

// recountAudit makes the counts agree with the rows. Where they do, it writes nothing.
func (t *tx) recountAudit() error {
	is := make(map[auditor]auditCount)
	for k, v := range table.Under(t.Tx, bucketAudit, nil) {
		e, err := table.Decode[AuditEntry](k, v)
		if err != nil {
			continue // set aside, or about to be
		}
		e.Tenant = tenantOf(k)
		for _, of := range e.countedWith() {
			c := is[of]
			if c.N++; c.From == 0 && of.actor != (Actor{}) {
				c.From = table.Number(k)
			}
			is[of] = c
		}
	}
	want := make(map[string]auditCount, len(is))
	for of, c := range is {
		want[string(of.key())] = c
	}
	for _, k := range table.KeysUnder(t.Tx, bucketAuditCounts, nil) {
		c, ok := want[string(k)]
		if has, err := table.Decode[auditCount](k, t.Bucket([]byte(bucketAuditCounts)).Get(k)); ok && err == nil && has.N == c.N && has.From <= c.From {
			delete(want, string(k))
		} else if !ok {
			if err := t.Delete(bucketAuditCounts, k); err != nil {
				return err
			}
		}
	}
	for k, c := range want {
		if err := t.Put(bucketAuditCounts, []byte(k), c); err != nil {
			return err
		}
	}
	return nil
}

// splitAudit gives the rows of a file from before schema 3 their tenants. Until then 10,000 were kept of
// all together, so what a credential has too many of is all there is to drop.
func splitAudit(x *bolt.Tx) error {
	t := edit(x)
	if _, err := x.CreateBucketIfNotExists([]byte(bucketAuditCounts)); err != nil {
		return fmt.Errorf("bucket %s: %w", bucketAuditCounts, err)
	}
	for _, k := range table.KeysUnder(x, bucketAudit, nil) {
		value := bytes.Clone(x.Bucket([]byte(bucketAudit)).Get(k))
		e, err := table.Decode[AuditEntry](k, value)
		if err != nil {
			continue // for repair
		}
		if err := errors.Join(t.Delete(bucketAudit, k), t.Append(bucketAudit, auditKeyOf(e.Tenant, table.Number(k)), e)); err != nil {
			return err
		}
	}
	if err := t.recountAudit(); err != nil {
		return err
	}
	for _, e := range table.Readable[AuditEntry](x, bucketAudit) {
		if !e.Actor.credential() {
			continue
		}
		if err := t.trimAudit(auditor{e.Tenant, e.Actor}); err != nil {
			return err
		}
	}
	return nil
}

// Audit lists the newest limit rows of all tenants, or of those that which picks, the newest last; a limit of 0
// means all. Kept are the newest 10,000 of each tenant, and of those without one, of which at most 2,000 are
// one credential's. A damaged row comes back as an error that names it, together with the others.
func (db *DB) Audit(ctx context.Context, limit int, which ...func(AuditEntry) bool) ([]AuditEntry, error) {
	picked := func(e AuditEntry) bool {
		return !slices.ContainsFunc(which, func(picks func(AuditEntry) bool) bool { return !picks(e) })
	}
	type row struct {
		n uint64
		AuditEntry
	}
	var rows []row
	var bad []error
	err := db.read(ctx, func(t *bolt.Tx) error {
		rows, bad = nil, nil
		c := t.Bucket([]byte(bucketAudit)).Cursor()
		k, v := c.Last()
		for k != nil { // a tenant after the other, from its newest row on
			of := bytes.Clone(k[:max(0, len(k)-8)])
			for had := 0; k != nil && bytes.Equal(k[:max(0, len(k)-8)], of); k, v = c.Prev() {
				if limit > 0 && had == limit {
					c.Seek(of)
					k, v = c.Prev()
					break
				}
				e, err := table.Decode[AuditEntry](k, v)
				switch {
				case err != nil:
					bad = append(bad, boltfile.DamagedRecord(bucketAudit, k, err))
				case picked(e):
					rows = append(rows, row{table.Number(k), e})
					had++
				}
			}
		}
		return nil
	})
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.n, b.n) })
	if limit > 0 {
		rows = rows[max(0, len(rows)-limit):]
	}
	var out []AuditEntry
	for _, r := range rows {
		out = append(out, r.AuditEntry)
	}
	if err := errors.Join(append(bad, err)...); err != nil {
		return out, fmt.Errorf("audit: %w", err)
	}
	return out, nil
}
