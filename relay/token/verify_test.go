package token

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// sealer stands in for the vault: it refuses what was sealed for another place, and counts.
type sealer struct {
	unsealed int
	broken   string // a place whose record does not open
}

func (s *sealer) Seal(bucket, key string, plain relay.Secret) []byte {
	return fmt.Appendf(nil, "%s|%s|%x", bucket, key, plain.Reveal())
}

var errSeal = errors.New("does not open")

func (s *sealer) Unseal(bucket, key string, sealed []byte) (relay.Secret, error) {
	s.unsealed++
	rest, ok := bytes.CutPrefix(sealed, []byte(bucket+"|"+key+"|"))
	var plain []byte
	_, err := fmt.Sscanf(string(rest), "%x", &plain)
	if !ok || err != nil || (s.broken != "" && strings.HasSuffix(key, s.broken)) {
		return relay.Secret{}, errSeal
	}
	return relay.NewSecret(plain), nil
}

// bench is an authority over a real store, with a clock that stands still until it is moved.
type bench struct {
	*Authority
	db     *store.DB
	sealer *sealer
	now    time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := openBench(t)
	t.Cleanup(func() { b.close(t) })
	return b
}

// openBench is newBench for tests that close the store themselves.
func openBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{sealer: &sealer{}, now: start}
	clock := func() time.Time { return b.now }
	db, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	b.db = db
	b.Authority = NewAuthority(db, b.sealer, clock)
	return b
}

func (b *bench) close(t *testing.T) {
	if err := b.db.Close(); err != nil {
		t.Errorf("close store: %v", err)
	}
}

func (b *bench) enroll(t *testing.T, g relay.GatewayID) Credentials {
	t.Helper()
	c, rec := b.Issue(g)
	rec.Instance, rec.Tenant = relay.InstanceID("i-"+g), "home"
	inst := store.Instance{ID: rec.Instance, Tenant: rec.Tenant, CreatedAt: b.now}
	if err := b.db.Enroll(t.Context(), nil, rec, inst); err != nil {
		t.Fatalf("Enroll: %v", err)
	}
	return c
}

func (b *bench) rotate(t *testing.T, g relay.GatewayID) relay.Secret {
	t.Helper()
	s, err := b.Rotate(t.Context(), nil, g)
	if err != nil {
		t.Fatalf("Rotate: %v", err)
	}
	return s.Secret
}

// verdict is what g's bearer under s is worth now, minted as gateways do.
func (b *bench) verdict(t *testing.T, g relay.GatewayID, s relay.Secret) (Peer, Verdict) {
	t.Helper()
	p, v, err := b.Verify(t.Context(), Mint(g, s, b.now.Add(5*time.Minute)))
	if err != nil {
		t.Fatalf("Verify: %v", err)
	}
	return p, v
}

func (b *bench) check(t *testing.T, what string, g relay.GatewayID, s relay.Secret, want Verdict) Peer {
	t.Helper()
	p, got := b.verdict(t, g, s)
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	return p
}

func (b *bench) used(t *testing.T, p Peer) {
	t.Helper()
	if err := b.Used(t.Context(), p, netip.Addr{}); err != nil {
		t.Fatalf("Used: %v", err)
	}
}

func TestVerify(t *testing.T) {
	b := newBench(t)
	mine, other := b.enroll(t, "gw:1"), b.enroll(t, "gw2")
	gone := b.enroll(t, "revoked")
	if _, err := b.db.Revoke(t.Context(), nil, "i-revoked"); err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) time.Time { return start.Add(d) }
	good := Mint("gw:1", mine.Secret, at(time.Minute))
	for name, tc := range map[string]struct {
		bearer string
		want   Verdict
	}{
		"good":                          {good, Valid},
		"good, padded":                  {good + strings.Repeat("=", (4-len(good)%4)%4), Valid},
		"for ever":                      {Mint("gw:1", mine.Secret, time.Time{}), Valid},
		"expires this second":           {Mint("gw:1", mine.Secret, start), Valid},
		"expired, within the skew":      {Mint("gw:1", mine.Secret, at(-60*time.Second)), Valid},
		"expired, beyond the skew":      {Mint("gw:1", mine.Secret, at(-61*time.Second)), Expired},
		"expired long ago":              {Mint("gw:1", mine.Secret, time.Unix(1, 0)), Expired},
		"expired before 1970":           {Mint("gw:1", mine.Secret, time.Unix(-1<<62, 0)), Expired},
		"far in the future":             {Mint("gw:1", mine.Secret, time.Unix(1<<62, 0)), Valid},
		"expired and wrongly signed":    {Mint("gw:1", other.Secret, at(-time.Hour)), Unauthorized},
		"another gateway's secret":      {Mint("gw:1", other.Secret, at(time.Minute)), Unauthorized},
		"signed with the delivery key":  {Mint("gw:1", mine.DeliveryKey, at(time.Minute)), Unauthorized},
		"another gateway's name":        {Mint("gw2", mine.Secret, at(time.Minute)), Unauthorized},
		"unknown gateway":               {Mint("gw3", mine.Secret, at(time.Minute)), Unauthorized},
		"unknown gateway, expired":      {Mint("gw3", mine.Secret, at(-time.Hour)), Unauthorized},
		"unknown gateway, empty secret": {Mint("gw3", secret(""), at(time.Minute)), Unauthorized},
		"revoked":                       {Mint("revoked", gone.Secret, at(time.Minute)), Unauthorized},
		"revoked and expired":           {Mint("revoked", gone.Secret, at(-time.Hour)), Unauthorized},
		"missing":                       {"", Unauthorized},
		"malformed":                     {"Bearer", Unauthorized},
		"signature changed":             {bearer("gw:1:0:" + strings.Repeat("0", 64)), Unauthorized},
		"expiry moved under its mac":    {bearer(strings.Replace(unbearer(t, good), ":1785585660:", ":0:", 1)), Unauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			p, got, err := b.Verify(t.Context(), tc.bearer)
			if err != nil || got != tc.want {
				t.Fatalf("Verify = %v, %v; want %v", got, err, tc.want)
			}
			if tc.want == Unauthorized {
				if p != (Peer{}) {
					t.Errorf("a peer for the unauthorized: %+v", p)
				}
				return
			}
			if p.Gateway != "gw:1" || p.Instance != "i-gw:1" || p.Tenant != "home" || p.SecretID == "" {
				t.Errorf("peer %+v, want gateway gw:1 with its instance, tenant and secret", p)
			}
		})
	}
}

// Invariant 1, as far as it can be counted: the same number of records is opened for everyone.
func TestVerifyWorksTheSameForAll(t *testing.T) {
	b := newBench(t)
	one, two := b.enroll(t, "one"), b.enroll(t, "two")
	newer := b.rotate(t, "two")
	b.verdict(t, "one", one.Secret) // makes the decoy
	for name, token := range map[string]string{
		"unknown":            Mint("three", one.Secret, time.Time{}),
		"one secret, right":  Mint("one", one.Secret, time.Time{}),
		"one secret, wrong":  Mint("one", two.Secret, time.Time{}),
		"two secrets, older": Mint("two", two.Secret, time.Time{}),
		"two secrets, newer": Mint("two", newer, time.Time{}),
		"two secrets, wrong": Mint("two", one.Secret, time.Time{}),
	} {
		before := b.sealer.unsealed
		if _, _, err := b.Verify(t.Context(), token); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := b.sealer.unsealed - before; got != maxLive {
			t.Errorf("%s: %d records opened, want %d", name, got, maxLive)
		}
	}
}

// Invariant 3.
func TestOwnTroubleIsNoVerdict(t *testing.T) {
	b := newBench(t)
	old := b.enroll(t, "gw")
	newer := b.rotate(t, "gw")
	rec, err := store.Only(b.db.Gateways(t.Context(), "gw"))
	if err != nil {
		t.Fatal(err)
	}
	b.sealer.broken = rec.Secrets[0].ID
	b.check(t, "the other secret fits", "gw", newer, Valid)
	_, v, err := b.Verify(t.Context(), Mint("gw", old.Secret, time.Time{}))
	if !errors.Is(err, errSeal) || v != Unauthorized {
		t.Errorf("Verify with a damaged record = %v, %v; want %v", v, err, errSeal)
	}

	closed := openBench(t)
	c := closed.enroll(t, "gw")
	closed.close(t)
	if _, _, err := closed.Verify(t.Context(), Mint("gw", c.Secret, time.Time{})); err == nil {
		t.Error("Verify on a closed store gave a verdict")
	}
}

func unbearer(t *testing.T, token string) string {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestForgedIDsFillNoMemory: of gateways that do not exist nothing is remembered, and of those that exist no more than fits.
func TestForgedIDsFillNoMemory(t *testing.T) {
	b := newBench(t)
	b.enroll(t, "gw")
	for n := range 100 {
		b.Refused(t.Context(), Mint(relay.GatewayID(fmt.Sprintf("forged-%d", n)), secret("x"), time.Time{}), netip.Addr{})
	}
	b.Refused(t.Context(), "garbage", netip.Addr{})
	b.Refused(t.Context(), Mint("gw", secret("x"), time.Time{}), netip.Addr{})
	if len(b.dials.of) != 1 || b.Dials("gw").Refused != 1 {
		t.Errorf("%d are remembered, want gw alone", len(b.dials.of))
	}
	for n := range maxDials + 10 {
		b.dials.note(relay.GatewayID(fmt.Sprintf("real-%d", n)), func(d *Dials) { d.Refused++ })
	}
	if len(b.dials.of) != maxDials {
		t.Errorf("%d are remembered, want %d", len(b.dials.of), maxDials)
	}
}
