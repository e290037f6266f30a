package identity

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/storetest"
)

// desk is a verifier over a real store, with a clock that stands still until it is moved.
type desk struct {
	*Verifier
	db  *store.DB
	now time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{now: time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return d.now }
	d.db = storetest.Open(t, t.TempDir(), store.Options{Now: clock})
	var err error
	if d.Verifier, err = New(d.db.Codes, macer{}, d.db, Options{Now: clock}); err != nil {
		t.Fatal(err)
	}
	return d
}

// give stores a new code.
func (d *desk) give(t *testing.T, c store.Code) string {
	t.Helper()
	code := NewCode()
	if err := d.db.Codes.Put(t.Context(), nil, CodeMAC(macer{}, code), c); err != nil {
		t.Fatal(err)
	}
	return code
}

func (d *desk) mint(t *testing.T, code string) string {
	t.Helper()
	token, _, err := d.Mint(t.Context(), code)
	if err != nil {
		t.Fatalf("Mint: %v", err)
	}
	return token
}

// check looks at what a token is worth; the zero Caller means that it is refused.
func (d *desk) check(t *testing.T, what, token string, want Caller) {
	t.Helper()
	got, err := d.Caller(t.Context(), token)
	got.Minted = time.Time{} // TestIdentityToken looks at it
	if got != want || (want == Caller{}) != errors.Is(err, ErrUnauthorized) || want != (Caller{}) && err != nil {
		t.Errorf("%s: Caller = %+v, %v; want %+v", what, got, err, want)
	}
	if err != nil && strings.Contains(err.Error(), token) {
		t.Errorf("%s: the error contains the token", what)
	}
}

var home = Caller{Proof: Ambient, Tenant: "home", Instance: "i1", Subject: "i1"}

func TestNewCode(t *testing.T) {
	a, b := NewCode(), NewCode()
	if a == b {
		t.Error("two codes are the same")
	}
	for range 10_000 {
		if c := NewCode(); c[0] < 'a' || c[0] > 'z' || len(c) != relay.TokenLen {
			t.Fatalf("a code of %d characters that begins with %q, want %d and a letter", len(c), c[0], relay.TokenLen)
		}
	}
	if string(CodeMAC(macer{}, a)) == string(macer{}.MAC(purposeToken, relay.NewSecret([]byte(a)))) {
		t.Error("codes and tokens share a purpose")
	}
}

func TestIdentityToken(t *testing.T) {
	d := newDesk(t)
	code := d.give(t, store.Code{Kind: store.IdentityCode, Tenant: "home", Instance: "i1"})
	token, life, err := d.Mint(t.Context(), code)
	if err != nil || life != 5*time.Minute {
		t.Fatalf("Mint = %v, %v; want five minutes", life, err)
	}
	// What the stock resolver takes for a raw token (wire.md 1.2).
	if !regexp.MustCompile(`^[\w-]+\.[\w-]+\.[\w-]+$`).MatchString(token) || strings.Contains(token, code) {
		t.Errorf("token of the wrong form: %q", token)
	}
	d.check(t, "fresh", token, home)
	made := d.now
	d.now = d.now.Add(5*time.Minute - time.Second)
	d.check(t, "in its last second", token, home)
	if c, err := d.Caller(t.Context(), token); err != nil || !c.Minted.Equal(made) {
		t.Errorf("minted %v, %v; want %v", c.Minted, err, made)
	}
	d.now = d.now.Add(time.Second)
	d.check(t, "five minutes old", token, Caller{})
	d.check(t, "the next one", d.mint(t, code), home)
}

func TestCodeWithoutAnInstanceHasATimeOfItsOwn(t *testing.T) {
	d := newDesk(t)
	code := d.give(t, store.Code{Kind: store.IdentityCode, Tenant: "acme", ExpiresAt: d.now.Add(8 * time.Minute)})
	nobody := Caller{Proof: Ambient, Tenant: "acme"}
	d.check(t, "fresh", d.mint(t, code), nobody)
	d.now = d.now.Add(5 * time.Minute)
	token, life, err := d.Mint(t.Context(), code)
	if err != nil || life != 3*time.Minute {
		t.Errorf("Mint = %v, %v; want three minutes", life, err)
	}
	d.check(t, "in the code's last minutes", token, nobody)
	d.now = d.now.Add(3 * time.Minute)
	d.check(t, "after the code", token, Caller{})
	if token, _, err := d.Mint(t.Context(), code); !errors.Is(err, ErrUnauthorized) || token != "" {
		t.Errorf("Mint with an expired code: %v, want %v", err, ErrUnauthorized)
	}
}

func TestRevokedCodeEndsItsTokens(t *testing.T) { // invariant 4
	d := newDesk(t)
	first := d.give(t, store.Code{Kind: store.IdentityCode, Tenant: "home", Instance: "i1"})
	token := d.mint(t, first)
	second := d.give(t, store.Code{Kind: store.IdentityCode, Tenant: "home", Instance: "i1"})
	d.check(t, "of a replaced code", token, Caller{})
	if _, _, err := d.Mint(t.Context(), first); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("Mint with a replaced code: %v, want %v", err, ErrUnauthorized)
	}
	token = d.mint(t, second)
	d.check(t, "of the code in place", token, home)
	if n, err := d.db.Codes.Drop(t.Context(), nil, store.CodeFilter{Kind: store.IdentityCode, Instance: "i1"}); n != 1 || err != nil {
		t.Fatalf("DropIdentityCodes = %d, %v", n, err)
	}
	d.check(t, "of a revoked code", token, Caller{})
}

func TestNoOtherSpellingOfATokenCounts(t *testing.T) {
	d := newDesk(t)
	token := d.mint(t, d.give(t, store.Code{Kind: store.IdentityCode, Tenant: "home", Instance: "i1"}))
	d.check(t, "as it was made", token, home)
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.="
	for i := len(ambientPrefix); i < len(token); i++ {
		for _, r := range []byte(alphabet) {
			if r != token[i] {
				d.check(t, "with another letter", token[:i]+string(r)+token[i+1:], Caller{})
			}
		}
		d.check(t, "with a letter less", token[:i]+token[i+1:], Caller{})
		d.check(t, "with a line break", token[:i]+"\n"+token[i+1:], Caller{})
		d.check(t, "with one more letter", token[:i]+"A"+token[i:], Caller{})
	}
	for name, text := range map[string]string{
		"only the prefix": ambientPrefix,
		"padded":          token + "=",
		"huge":            token + strings.Repeat("A", 1<<20),
	} {
		d.check(t, name, text, Caller{})
	}
	other, err := New(d.db.Codes, otherMacer{}, d.db, Options{Now: d.Verifier.now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Caller(t.Context(), token); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("a token of another connector: %v, want %v", err, ErrUnauthorized)
	}
}

// otherMacer is another connector's vault.
type otherMacer struct{ macer }

func (o otherMacer) MAC(purpose string, token relay.Secret) []byte {
	return o.macer.MAC("other "+purpose, token)
}

// TestOlderCodesAreGood: those of 43 characters, which may begin with any.
func TestOlderCodesAreGood(t *testing.T) {
	d := newDesk(t)
	const older = "-7Wm2uX0r4jzT1bqZkq0JmZbP8cVn5sY_3eKdQhLwRo"
	if err := d.db.Codes.Put(t.Context(), nil, CodeMAC(macer{}, older), store.Code{Kind: store.IdentityCode, Tenant: "home", Instance: "i1"}); err != nil {
		t.Fatal(err)
	}
	d.check(t, "an older code's", d.mint(t, older), home)
}

func TestMintRefuses(t *testing.T) {
	d := newDesk(t)
	code := d.give(t, store.Code{Kind: store.IdentityCode, Tenant: "home", Instance: "i1"})
	for name, text := range map[string]string{
		"nothing":           "",
		"unknown":           NewCode(),
		"a letter less":     code[1:],
		"a letter more":     code + "A",
		"another last one":  code[:len(code)-1] + "_",
		"a token":           d.mint(t, code),
		"huge":              strings.Repeat("A", 1<<20),
		"the stored form":   string(CodeMAC(macer{}, code)),
		"in capital letter": strings.ToUpper(code),
	} {
		if token, life, err := d.Mint(t.Context(), text); !errors.Is(err, ErrUnauthorized) || token != "" || life != 0 {
			t.Errorf("%s: Mint = %q, %v, %v; want %v", name, token, life, err, ErrUnauthorized)
		}
	}
	for mode, o := range map[Mode]Options{
		JWKS:       jwksOptions(),
		Introspect: {Mode: Introspect, IntrospectURL: "http://id.example", TenantField: "t"},
	} {
		v, err := New(d.db.Codes, macer{}, d.db, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := v.Mint(t.Context(), code); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("Mint in mode %s: %v, want %v", mode, err, ErrUnauthorized)
		}
	}
}

// brokenCodes is a store in trouble.
type brokenCodes struct{}

var errDisk = errors.New("the disk is on fire")

func (brokenCodes) Get(context.Context, store.CodeKind, []byte) (store.Code, error) {
	return store.Code{}, errDisk
}

func TestTroubleWithTheStoreIsNoVerdict(t *testing.T) { // invariant 5
	d := newDesk(t)
	code := d.give(t, store.Code{Kind: store.IdentityCode, Tenant: "home", Instance: "i1"})
	token := d.mint(t, code)
	v, err := New(brokenCodes{}, macer{}, &blobs{}, Options{Now: d.Verifier.now})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := v.Caller(t.Context(), token); !errors.Is(err, errDisk) || errors.Is(err, ErrUnauthorized) || c != (Caller{}) {
		t.Errorf("Caller = %+v, %v; want %v", c, err, errDisk)
	}
	if _, _, err := v.Mint(t.Context(), code); !errors.Is(err, errDisk) || errors.Is(err, ErrUnauthorized) {
		t.Errorf("Mint: %v; want %v", err, errDisk)
	}
}

func FuzzIdentityToken(f *testing.F) {
	v := newVerifier(f, &blobs{}, Options{})
	says := ambientClaims{CodeMAC(macer{}, "code"), time.Unix(1_899_999_700, 1), time.Unix(1_900_000_000, 0)}
	made := v.sign(says)
	f.Add(made)
	f.Add(made[:signedLen] + "." + made[:43])
	f.Add(ambientPrefix)
	f.Fuzz(func(t *testing.T, token string) {
		c, ok := v.verify(token)
		if ok && (token != made || string(c.mac) != string(says.mac) || !c.minted.Equal(says.minted) || !c.expires.Equal(says.expires)) {
			t.Errorf("a made-up token counts: %q", token)
		}
		if !ok && (c.mac != nil || !c.minted.IsZero() || !c.expires.IsZero()) {
			t.Error("both a claim and a refusal")
		}
	})
}
