package store

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// The second simulation is about who is enrolled and what belongs to whom. Every operation that somebody asks for
// is audited: it must leave a row exactly when it changed the model. A chat's move and the sweep leave none.

// tenancy is what the model knows, and what is read back.
type tenancy struct {
	Instances map[relay.InstanceID]relay.TenantID
	Live      map[relay.InstanceID]bool
	Gateways  map[relay.GatewayID]relay.InstanceID
	Revoked   map[relay.GatewayID]bool
	Tokens    map[string]Code
	Codes     map[string]Code
	Routes    map[string]Route
	Grants    map[string]Grant
	Moved     map[string]Move
}

func newTenancy() tenancy {
	return tenancy{
		map[relay.InstanceID]relay.TenantID{}, map[relay.InstanceID]bool{}, map[relay.GatewayID]relay.InstanceID{},
		map[relay.GatewayID]bool{}, map[string]Code{}, map[string]Code{}, map[string]Route{}, map[string]Grant{},
		map[string]Move{},
	}
}

func (s tenancy) clone() tenancy {
	return tenancy{
		maps.Clone(s.Instances), maps.Clone(s.Live), maps.Clone(s.Gateways), maps.Clone(s.Revoked),
		maps.Clone(s.Tokens), maps.Clone(s.Codes), maps.Clone(s.Routes), maps.Clone(s.Grants),
		maps.Clone(s.Moved),
	}
}

// stored reads all of it from the database.
func (s tenancy) stored(t *bolt.Tx) error {
	is, err1 := table.List[Instance](t, BucketInstances, nil)
	for _, i := range is {
		s.Instances[i.ID] = i.Tenant
		if l, _, err := table.Load[laneRecord](t, bucketLanes, table.Key(i.ID)); err != nil {
			return err
		} else if !l.Closed {
			s.Live[i.ID] = true
		}
	}
	gs, err2 := table.List[Gateway](t, BucketGateways, nil)
	for _, g := range gs {
		s.Gateways[g.ID] = g.Instance
		if g.Revoked {
			s.Revoked[g.ID] = true
		}
	}
	return errors.Join(err1, err2, collect(t, bucketTokens, s.Tokens), collect(t, bucketIdentity, s.Codes),
		collect(t, bucketRoutes, s.Routes), collect(t, BucketGrants, s.Grants),
		collect(t, BucketMoves, s.Moved))
}

func collect[T any](t *bolt.Tx, b string, into map[string]T) error {
	for k, v := range table.Under(t, b, nil) {
		r, err := table.Decode[T](k, v)
		if err != nil {
			return err
		}
		into[string(k)] = r
	}
	return nil
}

type tenancySim struct {
	path  string
	clock *clock
	db    *DB
	tenancy
	rows []audit.Entry
}

func TestTenancySimulation(t *testing.T) { // invariants 10 to 12
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &tenancySim{path: filepath.Join(t.TempDir(), "test.db"), clock: newClock(), tenancy: newTenancy()}
		s.open(t)
		defer func() { closeChecked(t, s.db) }()
		for n, tenant := range []relay.TenantID{"ta", "tb", "ta"} {
			g, i := relay.GatewayID(fmt.Sprintf("g%d", n+1)), relay.InstanceID(fmt.Sprintf("i%d", n+1))
			err := s.db.Enroll(t.Context(), nil, Gateway{ID: g}, Instance{ID: i, Tenant: tenant})
			must.Succeed(t, err, s.join(g, i, tenant))
		}
		steps := map[string]func(*rapid.T){
			"":       s.check,
			"time":   func(t *rapid.T) { s.clock.add(time.Duration(rapid.IntRange(1, 30).Draw(t, "hours")) * time.Hour) },
			"reopen": func(*rapid.T) { closeChecked(t, s.db); s.open(t) },
		}
		for name, step := range map[string]func(*audit.Entry, *rapid.T) (got, want error){
			"put token": s.putToken, "enroll by token": s.enrollByToken, "enroll": s.enroll, "revoke": s.revoke,
			"revoke instance": s.revokeInstance, "put identity": s.putIdentity, "drop identity": s.dropIdentity,
			"routes": s.setRoutes, "more routes": s.setRoutes, "drop route": s.dropRoute, "claim": s.claim,
			"claim again": s.claim, "release": s.release,
		} {
			steps[name] = func(t *rapid.T) { s.audited(t, name, step) }
		}
		for name, step := range map[string]func(*rapid.T) (got, want error){"move": s.move, "sweep": s.sweep} {
			steps[name] = func(t *rapid.T) {
				if got, want := step(t); !errors.Is(got, want) || want == nil && got != nil {
					t.Fatalf("%s: %v, want %v", name, got, want)
				}
			}
		}
		rt.Repeat(steps)
	})
}

func (s *tenancySim) open(t *testing.T) {
	t.Helper()
	db, err := Open(s.path, Options{Now: s.clock.now})
	must.Succeed(t, err)
	s.db = db
}

// audited runs step and notes the row it must leave.
func (s *tenancySim) audited(t *rapid.T, name string, step func(*audit.Entry, *rapid.T) (got, want error)) {
	before, who := s.clone(), audit.Actor{Kind: audit.ActorCLI, Name: "ann"}
	row := audit.Entry{At: s.clock.now(), Actor: who, Action: name, Tenant: "t", Instance: "i", Gateway: "g"}
	got, want := step(&row, t)
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Fatalf("%s: %v, want %v", name, got, want)
	}
	if !cmp.Equal(before, s.tenancy) {
		s.rows = append(s.rows, row)
	}
}

func (s *tenancySim) check(t *rapid.T) {
	got := newTenancy()
	must.Succeed(t, s.db.records.File.Read(t.Context(), got.stored))
	if diff := cmp.Diff(s.tenancy, got); diff != "" {
		t.Fatalf("stored (-want +got):\n%s", diff)
	}
	rows, err := s.db.Audit.List(t.Context(), 0)
	if err != nil || !slices.Equal(rows, s.rows) { // invariant 10
		t.Fatalf("audit: %v (-want +got):\n%s", err, cmp.Diff(s.rows, rows))
	}
	owner := map[string]relay.TenantID{}
	for _, r := range got.Routes { // invariant 12
		k := string(r.Platform) + " " + r.Key
		if o, ok := owner[k]; ok && o != r.Tenant {
			t.Fatalf("%s is a route of %s and of %s", k, o, r.Tenant)
		}
		owner[k] = r.Tenant
	}
}

func draw[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

func drawInstance(t *rapid.T) relay.InstanceID {
	return draw[relay.InstanceID](t, "instance", "i1", "i2", "i3")
}
func drawGateway(t *rapid.T) relay.GatewayID {
	return draw[relay.GatewayID](t, "gateway", "g1", "g2", "g3")
}
func drawTenant(t *rapid.T) relay.TenantID { return draw[relay.TenantID](t, "tenant", "ta", "tb") }
func drawPlatform(t *rapid.T) relay.PlatformID {
	return draw[relay.PlatformID](t, "platform", "p", "q")
}

// unkinded is a code as it rests on disk.
func unkinded(c Code) Code {
	c.Kind = ""
	return c
}

func (s *tenancySim) putToken(row *audit.Entry, t *rapid.T) (got, want error) {
	mac := draw(t, "token", "m1", "m2", "m3")
	e := Code{
		Kind:   EnrollCode,
		Tenant: drawTenant(t), Gateway: draw[relay.GatewayID](t, "for", "", "g1", "g2"), Instance: draw[relay.InstanceID](t, "as", "", "i1"),
		ExpiresAt: s.clock.now().Add(draw(t, "life", time.Hour, 48*time.Hour)),
	}
	if _, taken := s.Tokens[mac]; taken {
		want = ErrExists
	} else {
		s.Tokens[mac] = unkinded(e)
	}
	return s.db.Codes.Put(t.Context(), row, []byte(mac), e), want
}

func (s *tenancySim) enrollByToken(row *audit.Entry, t *rapid.T) (got, want error) {
	mac, asked := draw(t, "token", "m1", "m2", "m3"), draw[relay.TenantID](t, "asked", "", "ta", "tb")
	g, i := drawGateway(t), drawInstance(t)
	e, ok := s.Tokens[mac]
	switch {
	case !ok:
		want = ErrNotFound
	case asked != "" && asked != e.Tenant:
		want = ErrForeign
	case e.Used:
		want = ErrUsed
	case !s.clock.now().Before(e.ExpiresAt):
		want = ErrExpired
	case e.Gateway != "" && e.Gateway != g, e.Instance != "" && e.Instance != i:
		want = ErrForeign
	default:
		if want = s.join(g, i, e.Tenant); want == nil {
			e.Used = true
			s.Tokens[mac] = e
		}
	}
	return s.db.Enroll(t.Context(), row, Gateway{ID: g}, Instance{ID: i, Tenant: asked}, []byte(mac)), want
}

func (s *tenancySim) enroll(row *audit.Entry, t *rapid.T) (got, want error) {
	g, i, tenant := drawGateway(t), drawInstance(t), drawTenant(t)
	return s.db.Enroll(t.Context(), row, Gateway{ID: g}, Instance{ID: i, Tenant: tenant}), s.join(g, i, tenant)
}

func (s *tenancySim) join(g relay.GatewayID, i relay.InstanceID, tenant relay.TenantID) error {
	_, taken := s.Gateways[g]
	old, known := s.Instances[i]
	if taken && !s.Revoked[g] || known && old != tenant {
		return ErrExists
	}
	delete(s.Revoked, g)
	s.Gateways[g], s.Instances[i], s.Live[i] = i, tenant, true
	return nil
}

func (s *tenancySim) revoke(row *audit.Entry, t *rapid.T) (got, want error) {
	g := drawGateway(t)
	i, named := s.Gateways[g], drawInstance(t)
	if i == "" || named != i {
		return second(s.db.Revoke(t.Context(), row, named, g)), ErrNotFound
	}
	gone, err := s.db.Revoke(t.Context(), row, i, g)
	if slices.Contains(gone, g) == s.Revoked[g] {
		t.Fatalf("revoked %v; %s was revoked before: %v", gone, g, s.Revoked[g])
	}
	if s.Revoked[g] {
		return err, nil
	}
	s.Revoked[g] = true
	if len(s.liveGateways(i)) == 0 {
		s.strip(i)
	}
	return err, nil
}

func (s *tenancySim) revokeInstance(row *audit.Entry, t *rapid.T) (got, want error) {
	i := drawInstance(t)
	ids, err := s.db.Revoke(t.Context(), row, i)
	if _, known := s.Instances[i]; !known {
		return err, ErrNotFound
	}
	live := s.liveGateways(i)
	if !slices.Equal(ids, live) {
		t.Fatalf("revoked %v, want %v", ids, live)
	}
	for _, g := range live {
		s.Revoked[g] = true
	}
	s.strip(i)
	return err, nil
}

func (s *tenancySim) liveGateways(i relay.InstanceID) (out []relay.GatewayID) {
	for _, g := range slices.Sorted(maps.Keys(s.Gateways)) {
		if s.Gateways[g] == i && !s.Revoked[g] {
			out = append(out, g)
		}
	}
	return out
}

func (s *tenancySim) strip(i relay.InstanceID) {
	delete(s.Live, i)
	maps.DeleteFunc(s.Tokens, func(_ string, e Code) bool { return e.Instance == i && !e.Used })
	maps.DeleteFunc(s.Codes, func(_ string, c Code) bool { return c.Instance == i })
	maps.DeleteFunc(s.Routes, func(_ string, r Route) bool { return r.Instance == i })
	maps.DeleteFunc(s.Grants, func(_ string, g Grant) bool { return g.Instance == i })
}

func (s *tenancySim) putIdentity(row *audit.Entry, t *rapid.T) (got, want error) {
	mac := draw(t, "code", "c1", "c2", "c3", "c4")
	c := Code{Kind: IdentityCode, Tenant: drawTenant(t), Instance: draw[relay.InstanceID](t, "instance", "", "i1", "i2"), CreatedAt: s.clock.now()}
	if life := draw(t, "life", 0, time.Hour); life > 0 {
		c.ExpiresAt = s.clock.now().Add(life)
	}
	_, taken := s.Codes[mac]
	tenant, known := s.Instances[c.Instance]
	switch {
	case taken:
		want = ErrExists
	case known && tenant != c.Tenant:
		want = ErrForeign
	default:
		maps.DeleteFunc(s.Codes, func(_ string, old Code) bool { return c.Instance != "" && old.Instance == c.Instance })
		s.Codes[mac] = unkinded(c)
	}
	return s.db.Codes.Put(t.Context(), row, []byte(mac), c), want
}

func (s *tenancySim) dropIdentity(row *audit.Entry, t *rapid.T) (got, want error) {
	i, before := drawInstance(t), len(s.Codes)
	maps.DeleteFunc(s.Codes, func(_ string, c Code) bool { return c.Instance == i })
	n, err := s.db.Codes.Drop(t.Context(), row, CodeFilter{Kind: IdentityCode, Instance: i})
	if n != before-len(s.Codes) {
		t.Fatalf("dropped %d codes, want %d", n, before-len(s.Codes))
	}
	return err, nil
}

var simKeys = []string{"s", "x", "y", "a/path"}

func (s *tenancySim) setRoutes(row *audit.Entry, t *rapid.T) (got, want error) {
	i, p := drawInstance(t), drawPlatform(t)
	keys := rapid.SliceOfN(rapid.SampledFrom(simKeys), 0, 4).Draw(t, "keys")
	accepted, err := s.db.Routes.Set(t.Context(), row, i, p, keys)
	if !s.Live[i] {
		return err, ErrNotFound
	}
	var wanted []string
	for _, k := range keys {
		if !slices.Contains(wanted, k) && s.routable(s.Instances[i], p, k) {
			wanted = append(wanted, k)
		}
	}
	if !slices.Equal(accepted, wanted) {
		t.Fatalf("accepted %v of %v, want %v", accepted, keys, wanted)
	}
	maps.DeleteFunc(s.Routes, func(_ string, r Route) bool {
		return r.Instance == i && r.Platform == p && !slices.Contains(wanted, r.Key)
	})
	for _, k := range wanted {
		r := Route{Platform: p, Key: k, Tenant: s.Instances[i], Instance: i, At: s.clock.now()}
		if _, ok := s.Routes[string(routeKey(r))]; !ok {
			s.Routes[string(routeKey(r))] = r
		}
	}
	return err, nil
}

func (s *tenancySim) routable(tenant relay.TenantID, p relay.PlatformID, k string) bool {
	for _, g := range s.Grants {
		if g.Platform == p && g.Tenant != tenant && (string(g.Chat) == k || string(g.Scope) == k) {
			return false
		}
	}
	return !s.reserved(tenant, p, k)
}

func (s *tenancySim) reserved(tenant relay.TenantID, p relay.PlatformID, k string) bool {
	for _, r := range s.Routes {
		if r.Platform == p && r.Key == k && r.Tenant != tenant {
			return true
		}
	}
	return false
}

func (s *tenancySim) dropRoute(row *audit.Entry, t *rapid.T) (got, want error) {
	p, k, before := drawPlatform(t), draw(t, "key", simKeys...), len(s.Routes)
	maps.DeleteFunc(s.Routes, func(_ string, r Route) bool { return r.Platform == p && r.Key == k })
	if len(s.Routes) == before {
		want = ErrNotFound
	}
	return s.db.Routes.Drop(t.Context(), row, p, k), want
}

func (s *tenancySim) claim(row *audit.Entry, t *rapid.T) (got, want error) {
	g := Grant{
		Platform: drawPlatform(t), Scope: draw[relay.ScopeID](t, "scope", "", "s"), Chat: draw[relay.ChatID](t, "chat", "", "x", "y"),
		Instance: drawInstance(t), GrantedAt: s.clock.now(),
	}
	if g.Scope == "" && g.Chat == "" {
		g.Chat = "x"
	}
	parent, free := draw[relay.ChatID](t, "parent", "", "y"), rapid.Bool().Draw(t, "unreserved")
	tenant := s.Instances[g.Instance]
	if free {
		got = s.db.Claim(t.Context(), row, g, Own{parent})
	} else {
		got = s.db.Claim(t.Context(), row, g)
	}
	if !s.Live[g.Instance] {
		return got, ErrNotFound
	}
	for _, old := range s.Grants {
		if old.Platform != g.Platform || old.Scope != g.Scope || old.Instance == g.Instance {
			continue
		}
		if old.Chat == g.Chat || g.Scope != "" && (old.Chat == "" || g.Chat == "") {
			return got, ErrHeld
		}
	}
	k := string(grantKey(g.Platform, g.Scope, g.Chat))
	if _, mine := s.Grants[k]; mine {
		return got, nil
	}
	above, held := s.Grants[string(grantKey(g.Platform, g.Scope, parent))]
	if free && parent != "" && held && above.Instance != g.Instance {
		return got, ErrHeld
	}
	if free && (s.reserved(tenant, g.Platform, string(g.Chat)) || s.reserved(tenant, g.Platform, string(parent)) || s.reserved(tenant, g.Platform, string(g.Scope))) {
		return got, ErrReserved
	}
	g.Tenant = tenant
	s.Grants[k] = g
	return got, nil
}

func (s *tenancySim) release(row *audit.Entry, t *rapid.T) (got, want error) {
	i, p, scope, chat := drawInstance(t), drawPlatform(t), draw[relay.ScopeID](t, "scope", "", "s"), draw[relay.ChatID](t, "chat", "", "x", "y")
	k := string(grantKey(p, scope, chat))
	if g, ok := s.Grants[k]; !ok || g.Instance != i {
		want = ErrNotFound
	} else {
		delete(s.Grants, k)
	}
	return s.db.Release(t.Context(), row, i, p, scope, chat), want
}

func (s *tenancySim) move(t *rapid.T) (got, want error) {
	m := Move{Platform: drawPlatform(t), From: draw[relay.ChatID](t, "from", "x", "y", "z"), To: draw[relay.ChatID](t, "to", "x", "y", "z")}
	got = s.db.MoveChat(t.Context(), m)
	if m.From == m.To {
		return got, nil
	}
	before := s.clone()
	for k, g := range maps.Clone(s.Grants) {
		if g.Platform != m.Platform || g.Chat != m.From {
			continue
		}
		delete(s.Grants, k)
		g.Chat = m.To
		if to := string(grantKey(g.Platform, g.Scope, g.Chat)); s.Grants[to] == (Grant{}) {
			s.Grants[to] = g
		}
	}
	for k, r := range maps.Clone(s.Routes) { // all of one tenant, so the order does not matter
		if r.Platform != m.Platform || r.Key != string(m.From) {
			continue
		}
		delete(s.Routes, k)
		r.Key = string(m.To)
		if to := string(routeKey(r)); s.Routes[to] == (Route{}) && s.routable(r.Tenant, r.Platform, r.Key) {
			s.Routes[to] = r
		}
	}
	if cmp.Equal(before, s.tenancy) {
		return got, nil
	}
	delete(s.Moved, string(moveKey(m.Platform, m.To)))
	for k, r := range maps.Clone(s.Moved) {
		if r.Platform == m.Platform && r.To == m.From {
			r.To = m.To
			s.Moved[k] = r
		}
	}
	s.Moved[string(moveKey(m.Platform, m.From))] = Move{Platform: m.Platform, From: m.From, To: m.To, At: s.clock.now()}
	return got, nil
}

func (s *tenancySim) sweep(t *rapid.T) (got, want error) {
	past := func(at time.Time) bool { return !at.IsZero() && s.clock.now().Sub(at) > keepCode }
	before := len(s.Tokens) + len(s.Codes)
	maps.DeleteFunc(s.Tokens, func(_ string, e Code) bool { return past(e.ExpiresAt) })
	maps.DeleteFunc(s.Codes, func(_ string, c Code) bool { return past(c.ExpiresAt) })
	maps.DeleteFunc(s.Moved, func(_ string, r Move) bool {
		held := slices.ContainsFunc(slices.Collect(maps.Values(s.Grants)), func(g Grant) bool { return g.Platform == r.Platform && g.Chat == r.To })
		return !held || s.clock.now().Sub(r.At) > keepSilent
	})
	swept, err := s.db.Sweep(t.Context())
	if n := before - len(s.Tokens) - len(s.Codes); swept != (Swept{Codes: n}) {
		t.Fatalf("swept %+v, want %d codes", swept, n)
	}
	return err, nil
}
