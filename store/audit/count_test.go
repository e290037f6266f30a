package audit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
)

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
func checkCounts(t *testing.T, db *bolt.DB) {
	t.Helper()
	write(t, db, func(x *table.Writer) error {
		err := audit.Recount(x)
		if x.Changes > 0 {
			t.Errorf("%d counts do not agree with the rows", x.Changes)
		}
		return err
	})
}

func TestAuditLimitsAgainstAModel(t *testing.T) {
	db := open(t)
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
	add(t, db, rows)
	for _, limit := range []int{0, 1, 7, 11_000} {
		want := model.rows
		if limit > 0 {
			want = want[max(0, len(want)-limit):]
		}
		got, err := list(db, limit)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("newest %d: %d rows, %v; want %d others", limit, len(got), err, len(want))
		}
	}
	checkCounts(t, db)
}

// TestWrongAuditCountsAreMadeAnew: no change fails for them.
func TestWrongAuditCountsAreMadeAnew(t *testing.T) {
	for name, spoilIt := range map[string]func(x *table.Writer, k []byte) error{
		"too high": func(x *table.Writer, k []byte) error {
			return x.Put(audit.Counts, k, map[string]int{"n": 20_000, "from": 1})
		},
		"past them": func(x *table.Writer, k []byte) error {
			return x.Put(audit.Counts, k, map[string]int{"n": 20_000, "from": 99})
		},
		"damaged": func(x *table.Writer, k []byte) error { return x.PutSealed(audit.Counts, k, []byte("ruins")) },
	} {
		for _, of := range []auditor{{tenant: "home"}, {"home", audit.Actor{Kind: audit.ActorGateway, Name: "g"}}} {
			t.Run(name, func(t *testing.T) {
				db := open(t)
				e := audit.Entry{Tenant: "home", Actor: audit.Actor{Kind: audit.ActorGateway, Name: "g"}, Action: "x"}
				add(t, db, []audit.Entry{e, e})
				write(t, db, func(x *table.Writer) error { return spoilIt(x, of.key()) })
				add(t, db, []audit.Entry{e})
				rows, err := list(db, 0)
				if err != nil || len(rows) != 3 {
					t.Errorf("%d rows, %v; want all three", len(rows), err)
				}
				checkCounts(t, db)
			})
		}
	}
}
