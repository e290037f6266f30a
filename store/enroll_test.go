package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestEnrollByToken(t *testing.T) { // invariant 11
	t.Parallel()
	c := newClock()
	life := 15 * time.Minute
	for name, tc := range map[string]struct {
		token   Code
		tenant  relay.TenantID
		gateway relay.GatewayID
		inst    Instance
		wait    time.Duration
		want    error
	}{
		"unbound":                     {Code{Kind: EnrollCode, Tenant: "b"}, "", "g", Instance{ID: "i"}, 0, nil},
		"bound":                       {Code{Kind: EnrollCode, Tenant: "b", Gateway: "g", Instance: "i"}, "b", "g", Instance{ID: "i"}, life - 1, nil},
		"into an instance that is":    {Code{Kind: EnrollCode, Tenant: "a"}, "", "g", Instance{ID: "a1"}, 0, nil},
		"its wake URL":                {Code{Kind: EnrollCode, Tenant: "b", WakeURL: "https://t.example"}, "", "g", Instance{ID: "i"}, 0, nil},
		"asked for another tenant":    {Code{Kind: EnrollCode, Tenant: "b"}, "a", "g", Instance{ID: "i"}, 0, ErrForeign},
		"for another gateway":         {Code{Kind: EnrollCode, Tenant: "b", Gateway: "h"}, "", "g", Instance{ID: "i"}, 0, ErrForeign},
		"for another instance":        {Code{Kind: EnrollCode, Tenant: "b", Instance: "j"}, "", "g", Instance{ID: "i"}, 0, ErrForeign},
		"expired":                     {Code{Kind: EnrollCode, Tenant: "b"}, "", "g", Instance{ID: "i"}, life, ErrExpired},
		"used":                        {Code{Kind: EnrollCode, Tenant: "b", Used: true}, "", "g", Instance{ID: "i"}, 0, ErrUsed},
		"the name is taken":           {Code{Kind: EnrollCode, Tenant: "a"}, "", "a1", Instance{ID: "i"}, 0, ErrExists},
		"the instance is another's":   {Code{Kind: EnrollCode, Tenant: "b"}, "", "g", Instance{ID: "a1"}, 0, ErrExists},
		"used, and it has expired":    {Code{Kind: EnrollCode, Tenant: "b", Used: true}, "", "g", Instance{ID: "i"}, life, ErrUsed},
		"another's says nothing more": {Code{Kind: EnrollCode, Tenant: "b", Used: true}, "a", "g", Instance{ID: "i"}, life, ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			now := c.now()
			db := openTest(t, Options{Now: func() time.Time { return now }})
			ctx := ctxOf(t)
			tenants(t, db)
			tc.token.ExpiresAt = now.Add(life)
			must.Succeed(t, db.Codes.Put(ctx, nil, []byte("m"), tc.token))
			now = now.Add(tc.wait)
			gateways, err1 := db.Gateways(ctx)
			tc.inst.Tenant = tc.tenant
			err := db.Enroll(ctx, nil, Gateway{ID: tc.gateway}, tc.inst, []byte("m"))
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			token, err2 := db.Codes.Get(ctx, EnrollCode, []byte("m"))
			must.Succeed(t, err1, err2)
			if tc.want != nil { // it is as good as it was
				if after, err := db.Gateways(ctx); err != nil || !cmp.Equal(after, gateways) || !cmp.Equal(token, tc.token) {
					t.Errorf("refused, and changed: %v %s %s", err, cmp.Diff(gateways, after), cmp.Diff(tc.token, token))
				}
				return
			}
			g, err1 := Only(db.Gateways(ctx, tc.gateway))
			i, err2 := Only(db.Instances(ctx, tc.inst.ID))
			must.Succeed(t, err1, err2)
			if !token.Used || g.Tenant != tc.token.Tenant || g.Instance != tc.inst.ID || i.Tenant != tc.token.Tenant || i.WakeURL != tc.token.WakeURL {
				t.Errorf("token %+v, gateway %+v, instance %+v", token, g, i)
			}
			err = db.Enroll(ctx, nil, Gateway{ID: "second"}, Instance{ID: tc.inst.ID}, []byte("m"))
			if !errors.Is(err, ErrUsed) {
				t.Errorf("the second time: %v, want ErrUsed", err)
			}
		})
	}
	db := openTest(t, Options{})
	if err := db.Enroll(ctxOf(t), nil, Gateway{ID: "g"}, Instance{ID: "i"}, []byte("m")); !errors.Is(err, ErrNotFound) {
		t.Errorf("with no token: %v", err)
	}
}

func TestEnrollmentTokenKeepsItsOwnWakeURLBack(t *testing.T) {
	db := openTest(t, Options{})
	token := Code{Kind: EnrollCode, Tenant: "a", WakeURL: "https://t.example", ExpiresAt: time.Now().Add(time.Hour)}
	err := db.Codes.Put(ctxOf(t), nil, []byte("m"), token)
	if err == nil {
		err = db.Enroll(ctxOf(t), nil, Gateway{ID: "g"}, Instance{ID: "i", WakeURL: "https://i.example"}, []byte("m"))
	}
	if i, err2 := Only(db.Instances(ctxOf(t), "i")); err != nil || err2 != nil || i.WakeURL != "https://i.example" {
		t.Errorf("%v %v, wake URL %q; want the instance's", err, err2, i.WakeURL)
	}
}

func TestEnrollmentTokenIsUsedOnce(t *testing.T) { // invariant 11
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	for round := range 5 {
		mac := []byte{byte(round)}
		must.Succeed(t, db.Codes.Put(ctx, nil, mac, Code{Kind: EnrollCode, Tenant: "a", ExpiresAt: time.Now().Add(time.Hour)}))
		var won atomic.Int32
		var wg sync.WaitGroup
		for n := range 64 {
			wg.Go(func() {
				name := fmt.Sprintf("%d-%d", round, n)
				err := db.Enroll(ctx, nil, Gateway{ID: relay.GatewayID(name)}, Instance{ID: relay.InstanceID(name)}, mac)
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, ErrUsed):
					t.Errorf("%s: %v, want ErrUsed", name, err)
				}
			})
		}
		wg.Wait()
		gs, err1 := db.Gateways(ctx)
		is, err2 := db.Instances(ctx)
		if err := errors.Join(err1, err2); err != nil || won.Load() != 1 || len(gs) != round+1 || len(is) != round+1 {
			t.Fatalf("round %d: %d won, %d gateways, %d instances, %v", round, won.Load(), len(gs), len(is), err)
		}
	}
}

func TestCrashLeavesATokenUsedAndEnrolledOrNeither(t *testing.T) { // invariants 3 and 11
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	ctx := ctxOf(t)
	for n := range 30 { // enough that the records lie in pages of their own
		mac := []byte{byte(n)}
		must.Succeed(t, db.Codes.Put(ctx, nil, mac, Code{Kind: EnrollCode, Tenant: "a", ExpiresAt: time.Now().Add(time.Hour)}))
		before := read(t, path)
		g := Gateway{ID: relay.GatewayID(fmt.Sprintf("g%d", n)), DeliveryKey: make([]byte, 300)}
		must.Succeed(t, db.Enroll(ctx, &audit.Entry{Action: "enroll"}, g, Instance{ID: relay.InstanceID(g.ID)}, mac))
		if n%6 != 5 {
			continue
		}
		both, neither := 0, 0
		for name, content := range stoppedIn(before, read(t, path)) {
			db := openCopy(t, content)
			token, err1 := db.Codes.Get(ctx, EnrollCode, mac)
			_, err2 := Only(db.Gateways(ctx, g.ID))
			_, err3 := Only(db.Instances(ctx, relay.InstanceID(g.ID)))
			rows, err4 := db.Audit.List(ctx, 0)
			must.Succeed(t, err1, err4)
			switch got := []bool{token.Used, err2 == nil, err3 == nil, len(rows) == n+1}; {
			case slices.Equal(got, []bool{true, true, true, true}):
				both++
			case slices.Equal(got, []bool{false, false, false, false}):
				neither++
				if err := db.Enroll(ctx, nil, g, Instance{ID: relay.InstanceID(g.ID)}, mac); err != nil {
					t.Errorf("%s: the next try: %v", name, err)
				}
			default:
				t.Errorf("%s: used, gateway, instance, audited: %v", name, got)
			}
			closeChecked(t, db) // a 32-bit host has no room to map them all
		}
		if both == 0 || neither == 0 {
			t.Errorf("%d stops after the change and %d before it; want some of each", both, neither)
		}
	}
}

func TestRevokeInstance(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "i2")
	hour := time.Now().Add(time.Hour)
	must.Succeed(t,
		db.Enroll(ctx, nil, Gateway{ID: "a"}, Instance{ID: "i1", Tenant: "home"}),
		db.Enroll(ctx, nil, Gateway{ID: "z", Secrets: []GatewaySecret{{ID: "s"}}}, Instance{ID: "i1", Tenant: "home"}),
		second(db.Revoke(ctx, nil, "i1", "a")),
		db.Codes.Put(ctx, nil, []byte("of i1"), Code{Kind: EnrollCode, Tenant: "home", Instance: "i1", ExpiresAt: hour}),
		db.Codes.Put(ctx, nil, []byte("used"), Code{Kind: EnrollCode, Tenant: "home", Instance: "i1", ExpiresAt: hour, Used: true}),
		db.Codes.Put(ctx, nil, []byte("of i2"), Code{Kind: EnrollCode, Tenant: "home", Instance: "i2", ExpiresAt: hour}),
		db.Codes.Put(ctx, nil, []byte("unnamed"), Code{Kind: EnrollCode, Tenant: "home", ExpiresAt: hour}),
	)
	acceptOne(t, db, event("e1", 300), "i1", "i2")
	revoke := func(want ...relay.GatewayID) {
		t.Helper()
		if ids, err := db.Revoke(ctx, nil, "i1"); err != nil || !slices.Equal(ids, want) {
			t.Errorf("revoked %v, %v; want %v", ids, err, want)
		}
	}
	revoke("i1", "z")
	commits := db.Stats().Commits
	revoke()
	if n := db.Stats().Commits; n != commits {
		t.Errorf("the second time committed %d times", n-commits)
	}
	for _, id := range []relay.GatewayID{"i1", "z", "a"} {
		if g, err := Only(db.Gateways(ctx, id)); err != nil || !g.Revoked || g.Secrets != nil || g.DeliveryKey != nil {
			t.Errorf("gateway %+v, %v; want it revoked and bare", g, err)
		}
	}
	if g, err := Only(db.Gateways(ctx, "i2")); err != nil || g.Revoked {
		t.Errorf("the neighbour's gateway: %+v, %v", g, err)
	}
	if a, b := deadOf(t, db, "i1"), laneOf(t, db, "i2"); a != "[e1:removed]" || b != "[e1]" {
		t.Errorf("dead letters %s, the neighbour's lane %s", a, b)
	}
	for mac, want := range map[string]error{"of i1": ErrNotFound, "used": nil, "of i2": nil, "unnamed": nil} {
		if _, err := db.Codes.Get(ctx, EnrollCode, []byte(mac)); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("token %s: %v, want %v", mac, err, want)
		}
	}
	must.Succeed(t, db.Codes.Put(ctx, nil, []byte("late"), Code{Kind: IdentityCode, Tenant: "home", Instance: "i1"}))
	revoke()
	if _, err := db.Codes.Get(ctx, IdentityCode, []byte("late")); !errors.Is(err, ErrNotFound) {
		t.Errorf("what was made out to it since: %v, want ErrNotFound", err)
	}
	if _, err := db.Revoke(ctx, nil, "zz"); !errors.Is(err, ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
}
