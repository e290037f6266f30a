package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	bolt "go.etcd.io/bbolt"
)

// Audit lists the newest limit rows of all tenants, or of those that which picks, the newest last; a limit of 0
// means all. Kept are the newest 10,000 of each tenant, and of those without one, of which at most 2,000 are
// one credential's. A damaged row comes back as an error that names it, together with the others.
func (db *DB) Audit(ctx context.Context, limit int, which ...func(audit.Entry) bool) (out []audit.Entry, err error) {
	var bad error
	err = db.read(ctx, func(t *bolt.Tx) error {
		out, bad = audit.List(t, limit, which...)
		return nil
	})
	if err = errors.Join(bad, err); err != nil {
		err = fmt.Errorf("audit: %w", err)
	}
	return out, err
}

// run runs o, and leaves its audit row if it has one and changed something.
func (t *tx) run(o *op) error {
	t.row = nil
	if o.row != nil {
		row := *o.row // o may run again
		t.row = &row
	}
	before := t.Changes
	o.left = nil
	if err := o.fn(t); err != nil || t.row == nil || t.Changes == before {
		return err
	}
	o.left = t.row
	return audit.Add(t.Writer, *t.row)
}

// concerns completes the audit row of the op that runs with what it found out.
func (t *tx) concerns(tenant relay.TenantID, i relay.InstanceID, g relay.GatewayID) {
	if t.row == nil {
		return
	}
	t.row.Tenant, t.row.Instance, t.row.Gateway = cmp.Or(t.row.Tenant, tenant), cmp.Or(t.row.Instance, i), cmp.Or(t.row.Gateway, g)
}
