package audit

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

// The buckets of the list.
const (
	Rows   = "audit"        // tenant|running number -> Entry
	Counts = "audit.counts" // tenant| and tenant|kind of actor|actor -> count
)

// count counts rows: of a tenant, or of one credential in it.
type count struct {
	N int `json:"n"`
	// No row of the credential has a number below From: the search for its oldest row begins there, and does not read
	// the same rows of others again and again. It is not used for a tenant's count.
	From uint64 `json:"from,omitempty"`
}

// auditor names the rows of a tenant that are counted together: those of one actor, or with the zero Actor all.
type auditor struct {
	tenant relay.TenantID
	actor  Actor
}

// credential reports whether a is a credential that could fill the list by itself.
func (a Actor) credential() bool {
	return a.Kind == ActorGateway || a.Kind == ActorJWT || a.Kind == ActorIdentity
}

func (a auditor) key() []byte {
	if a.actor == (Actor{}) {
		return table.Prefix(a.tenant)
	}
	return table.Key(a.tenant, string(a.actor.Kind), a.actor.Name)
}

// limit returns how many rows are kept.
func (a auditor) limit() int {
	if a.actor == (Actor{}) {
		return MaxRows
	}
	return MaxCredential
}

func rowKey(tenant relay.TenantID, n uint64) []byte {
	return binary.BigEndian.AppendUint64(table.Prefix(tenant), n)
}

// countedWith returns the counts in which e is included: the tenant's, and that of its credential if it has one.
func (e Entry) countedWith() []auditor {
	all := []auditor{{tenant: e.Tenant}}
	if e.Actor.credential() {
		all = append(all, auditor{e.Tenant, e.Actor})
	}
	return all
}

// Add adds a row, and drops the oldest past a limit.
func Add(w *table.Writer, e Entry) error {
	n, err := w.Next(Rows)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if err := w.Append(Rows, rowKey(e.Tenant, n), e); err != nil {
		return err
	}
	for _, of := range e.countedWith() {
		c, _, err := table.Load[count](w.Tx, Counts, of.key())
		if err != nil || c.N > of.limit() {
			if err := Recount(w); err != nil {
				return err
			}
			break // Recount has counted the new row, too
		}
		c.N++
		if err := w.Put(Counts, of.key(), c); err != nil {
			return err
		}
	}
	// The credential's own rows are dropped first.
	for _, of := range slices.Backward(e.countedWith()) {
		if err := trim(w, of); err != nil {
			return err
		}
	}
	return nil
}

// trim drops the oldest rows of a tenant, or of a credential in it, until they are within the limit.
func trim(w *table.Writer, of auditor) error {
	for {
		c, _, err := table.Load[count](w.Tx, Counts, of.key())
		if err == nil && c.N <= of.limit() {
			return nil
		}
		k, e := oldest(w, of, c.From)
		if err != nil || k == nil {
			return Recount(w)
		}
		if err := drop(w, k, e); err != nil {
			return err
		}
	}
}

// oldest returns the first row of a tenant, or of a credential in it, from a number on; nil if there is none. A damaged
// row of a tenant comes back without its entry.
func oldest(w *table.Writer, of auditor, from uint64) (k []byte, e Entry) {
	pre := table.Prefix(of.tenant)
	c := w.Bucket([]byte(Rows)).Cursor()
	for k, v := c.Seek(rowKey(of.tenant, from)); bytes.HasPrefix(k, pre); k, v = c.Next() {
		e, err := table.Decode[Entry](k, v)
		if of.actor == (Actor{}) || err == nil && e.Actor == of.actor {
			return bytes.Clone(k), e
		}
	}
	return nil, Entry{}
}

// drop deletes the row e under k, which is the oldest row of its tenant or of its credential, and lowers the counts
// that include it.
func drop(w *table.Writer, k []byte, e Entry) error {
	if err := w.Delete(Rows, k); err != nil {
		return err
	}
	e.Tenant = tenantOf(k) // e may be damaged, and then has no tenant
	for _, of := range e.countedWith() {
		c, _, err := table.Load[count](w.Tx, Counts, of.key())
		if err != nil {
			return Recount(w)
		}
		if c.N--; c.N <= 0 {
			err = w.Delete(Counts, of.key())
		} else {
			if of.actor != (Actor{}) {
				c.From = table.Number(k) + 1
			}
			err = w.Put(Counts, of.key(), c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tenantOf returns the tenant in the key of a row. Names of tenants contain none of the bytes that a key escapes.
func tenantOf(k []byte) relay.TenantID { return relay.TenantID(k[:max(0, len(k)-9)]) }

// Recount makes the counts agree with the rows. Where they do, it writes nothing.
func Recount(w *table.Writer) error {
	want := make(map[string]count)
	for k, v := range table.Under(w.Tx, Rows, nil) {
		e, err := table.Decode[Entry](k, v)
		if err != nil {
			continue // set aside, or about to be
		}
		e.Tenant = tenantOf(k)
		for _, of := range e.countedWith() {
			c := want[string(of.key())]
			if c.N++; c.From == 0 && of.actor != (Actor{}) {
				c.From = table.Number(k)
			}
			want[string(of.key())] = c
		}
	}
	for _, k := range table.KeysUnder(w.Tx, Counts, nil) {
		if _, ok := want[string(k)]; ok {
			continue
		}
		if err := w.Delete(Counts, k); err != nil {
			return err
		}
	}
	for k, c := range want {
		has, _, err := table.Load[count](w.Tx, Counts, []byte(k))
		if err == nil && has.N == c.N && has.From <= c.From {
			continue
		}
		if err := w.Put(Counts, []byte(k), c); err != nil {
			return err
		}
	}
	return nil
}

// Log is the list. Its methods may be called from any goroutine.
type Log struct{ db *table.DB }

// New returns the list of db.
func New(db *table.DB) *Log { return &Log{db} }

// List lists the newest limit rows of all tenants, or of the rows that which selects, the newest last; a limit of 0
// means all. The newest 10,000 rows of each tenant are kept, and of the rows without a tenant; at most 2,000 of a
// tenant's rows belong to one credential. Damaged rows come back as an error that names them, together with the others.
func (l *Log) List(ctx context.Context, limit int, which ...func(Entry) bool) ([]Entry, error) {
	var bad error
	out, err := table.Get(ctx, l.db, "audit", func(t *bolt.Tx) (out []Entry, _ error) {
		out, bad = list(t, limit, which...)
		return out, nil
	})
	if bad != nil {
		bad = fmt.Errorf("audit: %w", bad)
	}
	return out, errors.Join(bad, err)
}

// list is Log.List.
func list(t *bolt.Tx, limit int, which ...func(Entry) bool) (out []Entry, err error) {
	type row struct {
		n uint64
		Entry
	}
	var rows []row
	for k, v := range table.Under(t, Rows, nil) {
		e, bad := table.Decode[Entry](k, v)
		if bad != nil {
			err = errors.Join(err, boltfile.DamagedRecord(Rows, k, bad))
		} else if !slices.ContainsFunc(which, func(picks func(Entry) bool) bool { return !picks(e) }) {
			rows = append(rows, row{table.Number(k), e})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.n, b.n) })
	if limit > 0 {
		rows = rows[max(0, len(rows)-limit):]
	}
	for _, r := range rows {
		out = append(out, r.Entry)
	}
	return out, err
}
