package token

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

var secretForm = regexp.MustCompile(`^[a-z][a-z2-7]{63}$`)

// TestSecretsBeginWithALetter: and so do their ids.
func TestSecretsBeginWithALetter(t *testing.T) {
	b := newBench(t)
	id := regexp.MustCompile(`^[a-z][a-z2-7]{13}$`)
	for range 10_000 {
		if !secretForm.MatchString(randomSecret().RevealString()) {
			t.Fatal("a secret of another form")
		}
		if s := b.sealSecret("gw", relay.NewSecret(nil), time.Time{}); !id.MatchString(s.ID) {
			t.Fatalf("secret id %q, want %s", s.ID, id)
		}
	}
}

func TestIssue(t *testing.T) {
	b := newBench(t)
	c := b.enroll(t, "gw")
	for name, got := range map[string]string{"secret": c.Secret.RevealString(), "delivery key": c.DeliveryKey.RevealString()} {
		if !secretForm.MatchString(got) {
			t.Errorf("%s has %d characters, want a letter and 63 letters and digits", name, len(got))
		}
	}
	if c.Secret.RevealString() == c.DeliveryKey.RevealString() {
		t.Error("secret and delivery key are the same")
	}
	key, err := b.DeliveryKey(t.Context(), "gw")
	if err != nil || key.RevealString() != c.DeliveryKey.RevealString() {
		t.Errorf("DeliveryKey is another than was issued: %v", err)
	}
	if _, err := b.DeliveryKey(t.Context(), "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("DeliveryKey of nobody: %v, want %v", err, store.ErrNotFound)
	}
	if printed := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(printed, c.Secret.RevealString()) {
		t.Error("credentials print the secret")
	}
}

func TestOldSecretLivesUntilTheNewOneIsUsed(t *testing.T) {
	b := newBench(t)
	old := b.enroll(t, "gw").Secret
	fresh := b.rotate(t, "gw")
	if fresh.RevealString() == old.RevealString() || len(fresh.RevealString()) != 64 {
		t.Fatal("Rotate gave no new secret of 64 digits")
	}
	p := b.check(t, "old one before the new one was used", "gw", old, Valid)
	b.used(t, p)
	b.check(t, "new one after the old one was used again", "gw", fresh, Valid)
	b.check(t, "old one after it was used again", "gw", old, Valid)

	p = b.check(t, "new one", "gw", fresh, Valid)
	b.used(t, p)
	b.check(t, "old one after the new one was used", "gw", old, Unauthorized)
	b.check(t, "new one after it was used", "gw", fresh, Valid)

	b.now = start.Add(1000 * time.Hour)
	b.check(t, "new one, much later", "gw", fresh, Valid)
}

func TestOldSecretDiesAfterADay(t *testing.T) {
	b := newBench(t)
	old := b.enroll(t, "gw").Secret
	fresh := b.rotate(t, "gw")
	b.now = start.Add(24*time.Hour - time.Second)
	b.check(t, "old one, a second before", "gw", old, Valid)
	b.now = start.Add(24 * time.Hour)
	b.check(t, "old one, after a day", "gw", old, Unauthorized)
	_, v, err := b.Verify(t.Context(), Mint("gw", old, start))
	if err != nil || v != Unauthorized {
		t.Errorf("expired bearer of a dead secret: %v, %v; want %v", v, err, Unauthorized)
	}
	b.check(t, "new one, after a day", "gw", fresh, Valid)
}

// Invariant 4.
func TestRotatingTwiceKeepsTheSecretInUse(t *testing.T) {
	b := newBench(t)
	inUse := b.enroll(t, "gw").Secret
	lost := b.rotate(t, "gw")
	b.now = start.Add(20 * time.Hour)
	fresh := b.rotate(t, "gw")
	b.check(t, "the one in use", "gw", inUse, Valid)
	b.check(t, "the one nobody used", "gw", lost, Unauthorized)
	b.check(t, "the newest", "gw", fresh, Valid)

	b.now = start.Add(43 * time.Hour)
	b.check(t, "the one in use, 23 hours after the second rotation", "gw", inUse, Valid)
	b.now = start.Add(44 * time.Hour)
	b.check(t, "the one in use, 24 hours after the second rotation", "gw", inUse, Unauthorized)

	again := b.rotate(t, "gw")
	b.check(t, "the one before, which is now the one in use", "gw", fresh, Valid)
	b.check(t, "the newest of all", "gw", again, Valid)
	rec, err := store.Only(b.db.Gateways(t.Context(), "gw"))
	if err != nil || len(rec.Secrets) != maxLive {
		t.Errorf("%d secrets stored, %v; want %d", len(rec.Secrets), err, maxLive)
	}
}

func TestClockThatGoesBackDoesNotMakeTheNewSecretTheOlder(t *testing.T) {
	b := newBench(t)
	old := b.enroll(t, "gw").Secret
	b.now = start.Add(-time.Hour)
	fresh := b.rotate(t, "gw")
	b.used(t, b.check(t, "old one", "gw", old, Valid))
	b.used(t, b.check(t, "new one", "gw", fresh, Valid))
	b.check(t, "old one after the new one was used", "gw", old, Unauthorized)
	b.check(t, "new one after it was used", "gw", fresh, Valid)
}

func TestUsedWritesOnlyWhenThereIsSomethingToDrop(t *testing.T) {
	b := newBench(t)
	old := b.enroll(t, "gw").Secret
	p, _ := b.verdict(t, "gw", old)
	before := b.db.Stats().Ops
	b.used(t, p)
	if got := b.db.Stats().Ops - before; got != 0 {
		t.Errorf("%d writes with one secret, want none", got)
	}
	fresh := b.rotate(t, "gw")
	before = b.db.Stats().Ops
	b.used(t, p)
	if got := b.db.Stats().Ops - before; got != 0 {
		t.Errorf("%d writes for the older of two, want none", got)
	}
	p, _ = b.verdict(t, "gw", fresh)
	b.used(t, p)
	b.used(t, p)
	if got := b.db.Stats().Ops - before; got != 1 {
		t.Errorf("%d writes for the newer of two, used twice; want 1", got)
	}
	b.used(t, Peer{Gateway: "gw", SecretID: "gone"})
	b.check(t, "after a secret was used that is gone", "gw", fresh, Valid)
}

func TestRotateRefuses(t *testing.T) {
	b := newBench(t)
	b.enroll(t, "gw")
	if _, err := b.Rotate(t.Context(), nil, "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Rotate of nobody: %v, want %v", err, store.ErrNotFound)
	}
	if _, err := b.db.Revoke(t.Context(), nil, "i-gw"); err != nil {
		t.Fatal(err)
	}
	s, err := b.Rotate(t.Context(), nil, "gw")
	if !errors.Is(err, ErrRevoked) || !s.Secret.IsZero() {
		t.Errorf("Rotate of a revoked gateway: %v, want %v and no secret", err, ErrRevoked)
	}
}

func TestNewest(t *testing.T) {
	const window = 2 * time.Minute
	b := newBench(t)
	first := b.enroll(t, "gw").Secret
	newest := func() Newest {
		t.Helper()
		n, err := b.Newest(t.Context(), nil, "gw", window)
		if err != nil {
			t.Fatalf("Newest: %v", err)
		}
		return n
	}
	b.now = start.Add(window - time.Nanosecond)
	if n := newest(); n.Secret.RevealString() != first.RevealString() || !n.OldUntil.IsZero() || !n.CreatedAt.Equal(start) {
		t.Errorf("within the window: created %s, old one until %s; want the first secret again", n.CreatedAt, n.OldUntil)
	}
	b.now = start.Add(window)
	second := newest()
	if second.Secret.RevealString() == first.RevealString() || !second.OldUntil.Equal(b.now.Add(24*time.Hour)) || !second.CreatedAt.Equal(b.now) {
		t.Errorf("after the window: created %s, old one until %s; want a new secret beside the first", second.CreatedAt, second.OldUntil)
	}
	before := b.db.Stats().Commits
	if n := newest(); n.Secret.RevealString() != second.Secret.RevealString() || n.OldUntil.IsZero() {
		t.Errorf("again: old one until %s; want the second secret", n.OldUntil)
	}
	if got := b.db.Stats().Commits - before; got != 0 {
		t.Errorf("%d commits for a secret that was there", got)
	}
	b.used(t, b.check(t, "the second", "gw", second.Secret, Valid))
	if n := newest(); n.Secret.RevealString() != second.Secret.RevealString() || !n.OldUntil.IsZero() {
		t.Errorf("after its use: old one until %s; want the second secret, alone", n.OldUntil)
	}
	b.now = start // the clock is set back
	if n := newest(); n.Secret.RevealString() == second.Secret.RevealString() {
		t.Error("a secret from the future is the newest for ever")
	}
}

func TestNewestRefuses(t *testing.T) {
	b := newBench(t)
	b.enroll(t, "gw")
	if _, err := b.Newest(t.Context(), nil, "nobody", time.Minute); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Newest of nobody: %v, want %v", err, store.ErrNotFound)
	}
	rec, err := store.Only(b.db.Gateways(t.Context(), "gw"))
	if err != nil {
		t.Fatal(err)
	}
	b.sealer.broken = rec.Secrets[0].ID
	if n, err := b.Newest(t.Context(), nil, "gw", time.Minute); !errors.Is(err, errSeal) || !n.Secret.IsZero() {
		t.Errorf("Newest of a damaged secret: %v, want %v and no secret", err, errSeal)
	}
	if _, err := b.db.Revoke(t.Context(), nil, "i-gw"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Newest(t.Context(), nil, "gw", time.Minute); !errors.Is(err, ErrRevoked) {
		t.Errorf("Newest of a revoked gateway: %v, want %v", err, ErrRevoked)
	}
}
