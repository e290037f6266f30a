package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

func TestLinkCodes(t *testing.T) {
	t.Parallel()
	c := newClock()
	ann, bob := Person{"loop", "ann"}, Person{"loop", "bob"}
	mac := []byte{0, 1, 2}
	for name, tc := range map[string]struct {
		code   Code
		before []Person // who redeemed it before
		wait   time.Duration
		by     Person
		want   error
	}{
		"good":                           {Code{Kind: LinkCode}, nil, 0, ann, nil},
		"good on its platform":           {Code{Kind: LinkCode, Platform: "loop"}, nil, 0, ann, nil},
		"the same person again":          {Code{Kind: LinkCode}, []Person{ann}, 0, ann, nil},
		"the same person, much later":    {Code{Kind: LinkCode}, []Person{ann}, time.Hour, ann, nil},
		"someone else":                   {Code{Kind: LinkCode}, []Person{ann}, 0, bob, ErrUsed},
		"same id on another platform":    {Code{Kind: LinkCode}, []Person{ann}, 0, Person{"other", "ann"}, ErrUsed},
		"for another platform":           {Code{Kind: LinkCode, Platform: "other"}, nil, 0, ann, ErrNotFound},
		"just expired":                   {Code{Kind: LinkCode}, nil, 10 * time.Minute, ann, ErrExpired},
		"a moment before":                {Code{Kind: LinkCode}, nil, 10*time.Minute - 1, ann, nil},
		"someone else, after its expiry": {Code{Kind: LinkCode}, []Person{ann}, time.Hour, bob, ErrUsed},
	} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, Options{Now: c.now})
			ctx := ctxOf(t)
			enroll(t, db, "i1")
			tc.code.Instance, tc.code.ExpiresAt = "i1", c.now().Add(10*time.Minute)
			must.Succeed(t, db.Codes.Put(ctx, nil, mac, tc.code))
			for _, p := range tc.before {
				if _, err := db.Codes.Redeem(ctx, nil, mac, p, "dm"); err != nil {
					t.Fatal(err)
				}
			}
			c.add(tc.wait)
			got, err := db.Codes.Redeem(ctx, nil, mac, tc.by, "dm")
			if !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			bs, err := db.Bindings(ctx, BindingFilter{Platform: tc.by.Platform, User: tc.by.User})
			must.Succeed(t, err)
			if tc.want != nil {
				if len(bs) != 0 {
					t.Errorf("refused, and bound: %v", bs)
				}
				return
			}
			if got.Instance != "i1" || len(bs) != 1 || bs[0].DMChat != "dm" || bs[0].Instance != "i1" {
				t.Errorf("answer %+v, bindings %+v", got, bs)
			}
		})
	}
}

func TestLinkCodesAreNotOverwrittenAndBurn(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	enroll(t, db, "i1")
	c := Code{Kind: LinkCode, Instance: "i1", ExpiresAt: time.Now().Add(time.Hour)}
	must.Succeed(t, db.Codes.Put(ctx, nil, []byte("m"), c))
	if err := db.Codes.Put(ctx, nil, []byte("m"), c); !errors.Is(err, ErrExists) {
		t.Errorf("the same code twice: %v", err)
	}
	for range 2 {
		if _, err := db.Codes.Drop(ctx, nil, CodeFilter{Kind: LinkCode, MAC: []byte("m")}); err != nil {
			t.Error(err)
		}
	}
	if _, err := db.Codes.Redeem(ctx, nil, []byte("m"), Person{"loop", "u"}, ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("a burnt code: %v", err)
	}
}

func TestEnrollmentTokens(t *testing.T) {
	db := openTest(t, Options{})
	ctx := ctxOf(t)
	want := Code{Kind: EnrollCode, Tenant: "home", Gateway: "g", WakeURL: "https://a.example", ExpiresAt: time.Now().UTC()}
	must.Succeed(t, db.Codes.Put(ctx, nil, []byte("m"), want))
	if err := db.Codes.Put(ctx, nil, []byte("m"), want); !errors.Is(err, ErrExists) {
		t.Errorf("twice: %v", err)
	}
	if got, err := db.Codes.Get(ctx, EnrollCode, []byte("m")); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
	if _, err := db.Codes.Get(ctx, EnrollCode, []byte("other")); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}
