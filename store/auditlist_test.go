package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// addRows adds rows to the audit list, many to a commit.
func addRows(t *testing.T, db *DB, rows []audit.Entry) {
	t.Helper()
	for part := range slices.Chunk(rows, 100) {
		err := db.write(ctxOf(t), func(x *tx) error {
			for _, e := range part {
				if err := audit.Add(x.Writer, e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func actions(rows []audit.Entry) (out []string) {
	for _, e := range rows {
		out = append(out, e.Action)
	}
	return out
}

// TestOneCredentialPushesOutNobodysRows: it makes 100,000 link codes.
func TestOneCredentialPushesOutNobodysRows(t *testing.T) {
	db := openTest(t, Options{})
	ann, hostile, good := audit.Actor{Kind: audit.ActorCLI, Name: "ann"}, audit.Actor{Kind: audit.ActorGateway, Name: "hostile"}, audit.Actor{Kind: audit.ActorGateway, Name: "good"}
	others := []audit.Entry{
		{Actor: ann, Action: "enroll-token"},
		{Actor: ann, Action: "enroll", Tenant: "family"},
		{Actor: ann, Action: "enroll", Tenant: "home"},
		{Actor: good, Action: "claim", Tenant: "home"},
		{Actor: audit.Actor{Kind: audit.ActorJWT, Name: "hostile"}, Action: "claim", Tenant: "home"}, // another credential of that name
	}
	addRows(t, db, others)
	codes := make([]audit.Entry, 20_000)
	for n := range codes {
		codes[n] = audit.Entry{Actor: hostile, Action: fmt.Sprint("link-code ", n), Tenant: "home"}
	}
	addRows(t, db, codes)
	rows, err := db.Audit(ctxOf(t), 0)
	want := append(actions(others), actions(codes[len(codes)-audit.MaxCredential:])...)
	if diff := cmp.Diff(want, actions(rows)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	newest, err := db.Audit(ctxOf(t), 2, func(e audit.Entry) bool { return e.Actor != hostile })
	if diff := cmp.Diff(others[3:], newest); err != nil || diff != "" {
		t.Errorf("the newest two of the others: %v (-want +got):\n%s", err, diff)
	}
}

// auditor is whose rows are counted together, within a tenant: the zero Actor is everybody.
type auditor struct {
	tenant relay.TenantID
	actor  audit.Actor
}

func (a auditor) key() []byte {
	if a.actor == (audit.Actor{}) {
		return table.Prefix(a.tenant)
	}
	return table.Key(a.tenant, string(a.actor.Kind), a.actor.Name)
}

func (a auditor) limit() int {
	if a.actor == (audit.Actor{}) {
		return audit.MaxRows
	}
	return audit.MaxCredential
}

// countedWith are those e counts for.
func countedWith(e audit.Entry) []auditor {
	all := []auditor{{tenant: e.Tenant}}
	switch e.Actor.Kind {
	case audit.ActorGateway, audit.ActorJWT, audit.ActorIdentity:
		all = append(all, auditor{e.Tenant, e.Actor})
	}
	return all
}

func auditKey(tenant relay.TenantID, n uint64) []byte {
	return binary.BigEndian.AppendUint64(table.Prefix(tenant), n)
}

// auditModel is the audit list, kept the simple way.
type auditModel struct {
	rows  []audit.Entry
	count map[auditor]int
}

func (m *auditModel) add(e audit.Entry) {
	m.rows = append(m.rows, e)
	all := countedWith(e)
	for _, of := range all {
		m.count[of]++
	}
	for _, of := range slices.Backward(all) {
		if m.count[of] <= of.limit() {
			continue
		}
		at := slices.IndexFunc(m.rows, func(o audit.Entry) bool {
			return o.Tenant == of.tenant && (of.actor == audit.Actor{} || o.Actor == of.actor)
		})
		for _, of := range countedWith(m.rows[at]) {
			m.count[of]--
		}
		m.rows = slices.Delete(m.rows, at, at+1)
	}
}

// checkCounts holds the counts against the rows.
func checkCounts(t *testing.T, db *DB) {
	t.Helper()
	err := db.write(ctxOf(t), func(x *tx) error {
		if err := audit.Recount(x.Writer); err != nil {
			return err
		}
		if x.Changes > 0 {
			t.Errorf("%d counts do not agree with the rows", x.Changes)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAuditLimitsAgainstAModel(t *testing.T) {
	db := openTest(t, Options{})
	dice := rand.New(rand.NewPCG(6, 9))
	tenants := []relay.TenantID{"", "a", "ab", "b"}
	actors := []audit.Actor{
		{Kind: audit.ActorCLI, Name: "ann"}, {Kind: audit.ActorSystem}, {Kind: audit.ActorPerson, Name: "telegram:1"}, {Kind: audit.ActorGateway, Name: "g1"}, {Kind: audit.ActorGateway, Name: "g2"},
		{Kind: audit.ActorJWT, Name: "g1"}, {Kind: audit.ActorIdentity, Name: "g1"},
	}
	model := auditModel{count: make(map[auditor]int)}
	var rows []audit.Entry
	for n := range 20_000 {
		tenant, actor := tenants[1], actors[dice.IntN(len(actors))]
		if dice.IntN(4) == 0 {
			tenant = tenants[dice.IntN(len(tenants))]
		} else if dice.IntN(2) == 0 {
			actor = actors[3+n/7000] // one fills its share after the other
		}
		rows = append(rows, audit.Entry{Tenant: tenant, Actor: actor, Action: fmt.Sprint(n)})
		model.add(rows[n])
	}
	if a, g := model.count[auditor{tenant: "a"}], model.count[auditor{"a", actors[4]}]; a != audit.MaxRows || g != audit.MaxCredential {
		t.Fatalf("%d rows of the tenant and %d of a credential: the limits are not met", a, g)
	}
	addRows(t, db, rows)
	for _, limit := range []int{0, 1, 7, 11_000} {
		want := model.rows
		if limit > 0 {
			want = want[max(0, len(want)-limit):]
		}
		got, err := db.Audit(ctxOf(t), limit)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("newest %d: %d rows, %v; want %d others", limit, len(got), err, len(want))
		}
	}
	checkCounts(t, db)
}

// TestWrongAuditCountsAreMadeAnew: neither a change nor a start fails for them.
func TestWrongAuditCountsAreMadeAnew(t *testing.T) { // invariants 8 and 10
	for name, spoilIt := range map[string]func(x *tx, k []byte) error{
		"too high":  func(x *tx, k []byte) error { return x.Put(audit.Counts, k, map[string]int{"n": 20_000, "from": 1}) },
		"past them": func(x *tx, k []byte) error { return x.Put(audit.Counts, k, map[string]int{"n": 20_000, "from": 99}) },
		"damaged":   func(x *tx, k []byte) error { return x.PutSealed(audit.Counts, k, []byte("ruins")) },
	} {
		for _, of := range []auditor{{tenant: "home"}, {"home", audit.Actor{Kind: audit.ActorGateway, Name: "g"}}} {
			t.Run(name, func(t *testing.T) {
				db := openTest(t, Options{})
				e := audit.Entry{Tenant: "home", Actor: audit.Actor{Kind: audit.ActorGateway, Name: "g"}, Action: "x"}
				addRows(t, db, []audit.Entry{e, e})
				if err := db.write(ctxOf(t), func(x *tx) error { return spoilIt(x, of.key()) }); err != nil {
					t.Fatal(err)
				}
				addRows(t, db, []audit.Entry{e})
				rows, err := db.Audit(ctxOf(t), 0)
				if err != nil || len(rows) != 3 {
					t.Errorf("%d rows, %v; want all three", len(rows), err)
				}
				checkCounts(t, db)
			})
		}
	}
}

// TestRepairRecountsTheAuditList: a damaged row is set aside, and counts no more.
func TestRepairRecountsTheAuditList(t *testing.T) { // invariant 8
	path := t.TempDir() + "/test.db"
	db := reopen(t, path, Options{})
	e := audit.Entry{Tenant: "home", Actor: audit.Actor{Kind: audit.ActorGateway, Name: "g"}, Action: "x"}
	addRows(t, db, []audit.Entry{e, e, e, {Action: "without a tenant"}})
	spoil(t, db, audit.Rows, auditKey("home", 2))
	closeChecked(t, db)
	db = reopen(t, path, Options{})
	if n := db.Stats().Damaged; n != 1 {
		t.Errorf("%d damaged, want 1", n)
	}
	checkCounts(t, db)
	addRows(t, db, []audit.Entry{e})
	if rows, err := db.Audit(ctxOf(t), 0); err != nil || len(rows) != 4 {
		t.Errorf("%d rows, %v; want 4", len(rows), err)
	}
}

// TestSplitAuditOfACredentialThatHasTooMany: the first start of this version trims it.
func TestSplitAuditOfACredentialThatHasTooMany(t *testing.T) {
	path := schema2(t)
	b, err := openBolt(path, Options{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	err = boltfile.Update(b, func(x *bolt.Tx) error {
		for n := uint64(100); n < 100+3000; n++ {
			e := audit.Entry{Tenant: "home", Actor: audit.Actor{Kind: audit.ActorGateway, Name: "home"}, Action: fmt.Sprint(n)}
			if err := edit(x).Put(audit.Rows, auditKey("", n)[1:], e); err != nil {
				return err
			}
		}
		return x.Bucket([]byte(audit.Rows)).SetSequence(3099)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	db := reopen(t, path, Options{})
	rows, err := db.Audit(ctxOf(t), 0)
	if err != nil || len(rows) != 8+audit.MaxCredential || rows[7].Action != "revoke" || rows[8].Action != "1100" || db.Stats().Damaged != 0 {
		t.Errorf("%d rows, %v, %v; want 8 of others and the newest 2,000", len(rows), actions(rows[:min(10, len(rows))]), err)
	}
	checkCounts(t, db)
}
