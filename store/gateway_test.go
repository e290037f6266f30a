package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestNoteSeen(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	sleep := func(i *Instance) error {
		i.Asleep = true
		return nil
	}
	must.Succeed(t, db.UpdateInstance(ctx, nil, "i1", sleep))
	for _, tc := range []struct{ woken, asleep bool }{{false, true}, {true, false}, {false, false}} {
		at := time.Now().UTC()
		must.Succeed(t, db.UpdateGateway(ctx, nil, "i1", CameOrWent(at, tc.woken)))
		g, err1 := Only(db.Gateways(ctx, "i1"))
		i, err2 := Only(db.Instances(ctx, "i1"))
		if err := errors.Join(err1, err2); err != nil || !g.LastSeenAt.Equal(at) || !i.LastSeenAt.Equal(at) || i.Asleep != tc.asleep {
			t.Errorf("woken %v: gateway %v, instance %v, asleep %v, %v; want %v and asleep %v", tc.woken, g.LastSeenAt, i.LastSeenAt, i.Asleep, err, at, tc.asleep)
		}
	}
	if err := db.UpdateGateway(ctx, nil, "nobody", CameOrWent(time.Now(), true)); !errors.Is(err, ErrNotFound) {
		t.Errorf("nobody was seen: %v, want ErrNotFound", err)
	}
}

// A container comes with a new name each time; what the former ones were called is not kept for ever.
func TestProvisionedGatewaysAreForgotten(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	ctx := ctxOf(t)
	enroll(t, db, "home", "kids") // by hand: they stay
	for n := range 3 * maxProvisioned {
		c.add(time.Hour)
		id := relay.GatewayID(fmt.Sprintf("gw-%02d", n))
		must.Succeed(t, db.Enroll(ctx, nil, Gateway{ID: id, Provisioned: true}, Instance{ID: "home", Tenant: "home"}))
		if n == 2 {
			enrolled := Gateway{ID: "other", Provisioned: true}
			must.Succeed(t, db.Enroll(ctx, nil, enrolled, Instance{ID: "kids", Tenant: "home"}))
		}
		if n > 0 { // the first one is in use all the time
			must.Succeed(t, db.UpdateGateway(ctx, nil, "gw-00", CameOrWent(c.now(), true)))
		}
	}
	all, err := db.Gateways(ctx)
	must.Succeed(t, err)
	got := make(map[relay.GatewayID]bool)
	for _, g := range all {
		got[g.ID] = true
	}
	newest := relay.GatewayID(fmt.Sprintf("gw-%02d", 3*maxProvisioned-1))
	if len(all) != maxProvisioned+3 || !got["home"] || !got["kids"] || !got["other"] || !got["gw-00"] || !got[newest] {
		t.Errorf("%d gateways: %v; want those enrolled, the other instance's, the one in use, and the newest", len(all), got)
	}
}

// Not the one that has just come is forgotten, whatever the time was when the others were seen.
func TestAProvisionedGatewayStaysThoughTheClockIsBehind(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	come := func(n int) relay.GatewayID {
		id := relay.GatewayID(fmt.Sprintf("gw-%02d", n))
		must.Succeed(t, db.Enroll(ctxOf(t), nil, Gateway{ID: id, Provisioned: true}, Instance{ID: "home", Tenant: "home"}))
		return id
	}
	for n := range maxProvisioned {
		come(n)
	}
	c.add(-56 * 365 * day)
	last := come(maxProvisioned)
	if _, err := Only(db.Gateways(ctxOf(t), last)); err != nil {
		t.Errorf("the new one: %v", err)
	}
	if all, err := db.Gateways(ctxOf(t)); err != nil || len(all) != maxProvisioned {
		t.Errorf("%d gateways, %v; want %d", len(all), err, maxProvisioned)
	}
}

// TestInstancesThatMakeThemselves: who has a tenant's identity cannot fill the store with instances.
func TestInstancesThatMakeThemselves(t *testing.T) {
	db := openTest(t, Options{})
	come := func(tenant relay.TenantID, id relay.InstanceID) error {
		return db.Enroll(ctxOf(t), nil, Gateway{ID: relay.GatewayID(id), Provisioned: true}, Instance{ID: id, Tenant: tenant})
	}
	err := db.change(ctxOf(t), nil, "test", func(x *tx) error {
		for n := range maxInstances {
			if err := x.Put(BucketInstances, fmt.Appendf(nil, "i%d", n), Instance{ID: relay.InstanceID(fmt.Sprintf("i%d", n)), Tenant: "flat"}); err != nil {
				return err
			}
		}
		return nil
	})
	must.Succeed(t, err)
	if err := come("flat", "more"); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v, want ErrTooMany", err)
	}
	if err := errors.Join(come("flat", "i7"), come("house", "other")); err != nil {
		t.Errorf("one that is there, and another tenant's: %v, want them enrolled", err)
	}
	if err := db.Enroll(ctxOf(t), nil, Gateway{ID: "byhand"}, Instance{ID: "byhand", Tenant: "flat"}); err != nil {
		t.Errorf("the operator's: %v, want it enrolled", err)
	}
}
