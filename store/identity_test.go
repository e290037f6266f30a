package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestIdentityCodes(t *testing.T) {
	c := newClock()
	db := openTest(t, Options{Now: c.now})
	ctx := ctxOf(t)
	enroll(t, db, "i1", "i2")
	put := func(mac string, code Code, want error) {
		t.Helper()
		if err := db.Codes.Put(ctx, nil, []byte(mac), code); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("put %s: %v, want %v", mac, err, want)
		}
	}
	get := func(mac string, want error) (got Code) {
		t.Helper()
		got, err := db.Codes.Get(ctx, IdentityCode, []byte(mac))
		if !errors.Is(err, want) || want == nil && err != nil || want != nil && !cmp.Equal(got, Code{}) {
			t.Errorf("get %s: %+v, %v; want %v", mac, got, err, want)
		}
		return got
	}
	put("m1", Code{Kind: IdentityCode, Tenant: "home", Instance: "i1"}, nil)
	put("m1", Code{Kind: IdentityCode, Tenant: "home", Instance: "i2"}, ErrExists)
	put("m2", Code{Kind: IdentityCode, Tenant: "away", Instance: "i1"}, ErrForeign)
	put("m2", Code{Kind: IdentityCode, Tenant: "home", Instance: "i2"}, nil)
	put("m3", Code{Kind: IdentityCode, Tenant: "home", Instance: "later"}, nil) // enrolls with a token first
	put("m4", Code{Kind: IdentityCode, Tenant: "home", ExpiresAt: c.now().Add(time.Hour)}, nil)
	put("m5", Code{Kind: IdentityCode, Tenant: "home", ExpiresAt: c.now().Add(time.Hour)}, nil) // unnamed ones do not replace each other
	if err := db.Codes.Put(ctx, nil, []byte("m6"), Code{Kind: IdentityCode, Instance: "i1"}); err == nil {
		t.Error("a code of no tenant was stored")
	}
	want := Code{Kind: IdentityCode, Tenant: "home", Instance: "i1", CreatedAt: c.now()}
	if got := get("m1", nil); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	get("nothing", ErrNotFound)

	put("m7", Code{Kind: IdentityCode, Tenant: "home", Instance: "i1"}, nil)
	get("m1", ErrNotFound) // replaced
	get("m7", nil)
	get("m2", nil)
	for _, want := range []int{1, 0} {
		if n, err := db.Codes.Drop(ctx, nil, CodeFilter{Kind: IdentityCode, Instance: "i1"}); n != want || err != nil {
			t.Errorf("dropped %d, %v; want %d", n, err, want)
		}
	}
	get("m7", ErrNotFound)
	get("m2", nil)

	c.add(time.Hour - 1)
	get("m4", nil)
	c.add(1)
	get("m4", ErrExpired)
	c.add(day)
	if s, err := db.Sweep(ctx); s.Codes != 0 || err != nil {
		t.Errorf("swept %+v, %v, a day after the expiry", s, err)
	}
	get("m4", ErrExpired)
	c.add(1)
	if s, err := db.Sweep(ctx); s.Codes != 2 || err != nil {
		t.Errorf("swept %+v, %v; want both that expire", s, err)
	}
	get("m5", ErrNotFound)
	get("m3", nil)
	if _, err := db.Revoke(ctx, nil, "i2"); err != nil {
		t.Fatal(err)
	}
	get("m2", ErrNotFound)
}
