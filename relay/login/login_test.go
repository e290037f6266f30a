package login

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

const lasts = 12 * time.Hour // of a session

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

type macer struct{}

func (macer) MAC(purpose string, token relay.Secret) []byte {
	sum := sha256.Sum256([]byte(purpose + "\x00key\x00" + token.RevealString()))
	return sum[:]
}

// bench is a desk over a real store, with a clock that stands still until it is moved.
type bench struct {
	*Desk
	db   *store.DB
	path string
	now  time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{path: filepath.Join(t.TempDir(), "connector.db"), now: noon}
	b.open(t)
	t.Cleanup(func() { _ = b.db.Close() })
	return b
}

func (b *bench) open(t *testing.T) {
	t.Helper()
	now := func() time.Time { return b.now }
	db, err := store.Open(b.path, store.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	b.db, b.Desk = db, NewDesk(db.Codes, macer{}, now)
}

func (b *bench) mint(t *testing.T) string {
	t.Helper()
	code, until, err := b.Mint(context.Background(), audit.Actor{Kind: audit.ActorCLI, Name: "ann"})
	if err != nil || until.Sub(b.now) != CodeFor {
		t.Fatalf("Mint: good until %s, %v; want %s", until, err, CodeFor)
	}
	return code
}

func (b *bench) logIn(t *testing.T) string {
	t.Helper()
	token, until, err := b.LogIn(context.Background(), b.mint(t), lasts)
	if err != nil || until.Sub(b.now) != lasts {
		t.Fatalf("LogIn: until %s, %v; want %s", until, err, lasts)
	}
	return token.RevealString()
}

func (b *bench) renew(token string) { _ = b.Renew(context.Background(), token, b.now.Add(lasts)) }

func TestWhatACodeIsGoodFor(t *testing.T) {
	ctx := context.Background()
	for name, tc := range map[string]struct {
		before func(b *bench, code string) string // returns what is typed
		want   error
	}{
		"as it was made":             {func(_ *bench, code string) string { return code }, nil},
		"in capitals, with blanks":   {func(_ *bench, code string) string { return " " + string(bytes.ToUpper([]byte(code))) + "\n" }, nil},
		"a second time":              {func(b *bench, code string) string { _, _, _ = b.LogIn(ctx, code, lasts); return code }, ErrNotGood},
		"in its last second":         {func(b *bench, code string) string { b.now = b.now.Add(CodeFor - time.Second); return code }, nil},
		"after ten minutes":          {func(b *bench, code string) string { b.now = b.now.Add(CodeFor); return code }, ErrNotGood},
		"after everybody was out":    {func(b *bench, code string) string { _, _ = b.LogOutAll(ctx, audit.Actor{}); return code }, ErrNotGood},
		"one that was never made":    {func(*bench, string) string { return "abcdefghijklmnopqrstuvwxyz" }, ErrNotGood},
		"nothing":                    {func(*bench, string) string { return "" }, ErrNotGood},
		"a session's token, no code": {func(b *bench, code string) string { s, _, _ := b.LogIn(ctx, code, lasts); return s.RevealString() }, ErrNotGood},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			token, _, err := b.LogIn(ctx, tc.before(b, b.mint(t)), lasts)
			if !errors.Is(err, tc.want) || token.IsZero() != (err != nil) {
				t.Errorf("LogIn: a token: %t, %v; want %v", !token.IsZero(), err, tc.want)
			}
		})
	}
}

func TestACodeOpensOneSession(t *testing.T) { // invariant 1
	b := newBench(t)
	code := b.mint(t)
	var opened atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, err := b.LogIn(context.Background(), code, lasts); err == nil {
				opened.Add(1)
			}
		})
	}
	wg.Wait()
	if opened.Load() != 1 {
		t.Errorf("%d sessions of one code, want 1", opened.Load())
	}
}

func TestWhatEndsASession(t *testing.T) { // invariant 3
	ctx := context.Background()
	for name, tc := range map[string]struct {
		do   func(b *bench, token string)
		want error
	}{
		"nothing":             {func(*bench, string) {}, nil},
		"a restart does not":  {func(b *bench, _ string) { _ = b.db.Close(); b.open(t) }, nil},
		"another logs out":    {func(b *bench, _ string) { _ = b.LogOut(ctx, b.logIn(t)) }, nil},
		"its logout":          {func(b *bench, token string) { _ = b.LogOut(ctx, token) }, ErrNotGood},
		"everybody's logout":  {func(b *bench, _ string) { _, _ = b.LogOutAll(ctx, audit.Actor{}) }, ErrNotGood},
		"twelve hours":        {func(b *bench, _ string) { b.now = b.now.Add(lasts) }, ErrNotGood},
		"not a second before": {func(b *bench, _ string) { b.now = b.now.Add(lasts - time.Second) }, nil},
		"renewed before": {func(b *bench, token string) {
			b.now = b.now.Add(lasts - time.Second)
			b.renew(token)
			b.now = b.now.Add(lasts - time.Second)
		}, nil},
		"renewed, and over":     {func(b *bench, token string) { b.renew(token); b.now = b.now.Add(lasts) }, ErrNotGood},
		"renewed after its end": {func(b *bench, token string) { _ = b.LogOut(ctx, token); b.renew(token) }, ErrNotGood},
		"a sweep after the end": {func(b *bench, _ string) { b.now = b.now.Add(3 * lasts); _, _ = b.db.Sweep(ctx) }, ErrNotGood},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			token := b.logIn(t)
			tc.do(b, token)
			if _, err := b.Session(ctx, token); !errors.Is(err, tc.want) {
				t.Errorf("Session: %v, want %v", err, tc.want)
			}
		})
	}
}

func TestLogOutAllCounts(t *testing.T) {
	b := newBench(t)
	first, second := b.logIn(t), b.logIn(t)
	if n, err := b.LogOutAll(context.Background(), audit.Actor{Kind: audit.ActorCLI, Name: "ann"}); n != 2 || err != nil {
		t.Errorf("LogOutAll = %d, %v; want 2", n, err)
	}
	for _, token := range []string{first, second} {
		if _, err := b.Session(context.Background(), token); !errors.Is(err, ErrNotGood) {
			t.Errorf("a session goes on: %v", err)
		}
	}
	rows, err := b.db.Audit.List(context.Background(), 0)
	var got []string
	for _, r := range rows {
		got = append(got, string(r.Actor.Kind)+" "+r.Action)
	}
	want := []string{"cli web-code", "system web-login", "cli web-code", "system web-login", "cli web-logout"}
	if err != nil || len(got) != len(want) {
		t.Fatalf("audit %q, %v; want %q", got, err, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("audit row %d: %q, want %q", i, got[i], want[i])
		}
	}
}

// TestOthersStay: what lies beside the sessions is not taken for one, and does not go with them.
// TestNoLoginOutlivesALogOutAll: one at the same moment fails, or has no session afterwards.
func TestNoLoginOutlivesALogOutAll(t *testing.T) { // invariant 4
	b := newBench(t)
	for range 300 {
		code := b.mint(t)
		var token relay.Secret
		var loggedIn, loggedOut error
		var wg sync.WaitGroup
		wg.Go(func() { token, _, loggedIn = b.LogIn(context.Background(), code, lasts) })
		wg.Go(func() { _, loggedOut = b.LogOutAll(context.Background(), audit.Actor{}) })
		wg.Wait()
		if loggedOut != nil || loggedIn != nil && !errors.Is(loggedIn, ErrNotGood) {
			t.Fatalf("LogOutAll: %v, LogIn: %v", loggedOut, loggedIn)
		}
		if loggedIn != nil {
			continue
		}
		if _, err := b.Session(context.Background(), token.RevealString()); !errors.Is(err, ErrNotGood) {
			t.Fatalf("a session after LogOutAll: %v", err)
		}
	}
}

func TestOthersStay(t *testing.T) {
	ctx, b := context.Background(), newBench(t)
	token := []byte("an enrollment token's HMAC, 32 b")
	if err := b.db.Codes.Put(ctx, nil, token, store.Code{Kind: store.EnrollCode, Tenant: "home", ExpiresAt: noon.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	b.logIn(t)
	if _, err := b.LogOutAll(ctx, audit.Actor{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.Codes.Get(ctx, store.EnrollCode, token); err != nil {
		t.Errorf("the enrollment token is gone: %v", err)
	}
	if _, err := b.db.Codes.Get(ctx, store.WebSession, token); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an enrollment token as a session: %v, want %v", err, store.ErrNotFound)
	}
}

func TestNothingIsStoredInTheClear(t *testing.T) { // invariant 2
	b := newBench(t)
	code, token := b.mint(t), b.logIn(t)
	if err := b.db.Close(); err != nil {
		t.Fatal(err)
	}
	stored, err := os.ReadFile(b.path)
	if err != nil || !bytes.Contains(stored, []byte("web-code")) {
		t.Fatalf("the file does not hold what was done: %v", err)
	}
	if bytes.Contains(stored, []byte(code)) || bytes.Contains(stored, []byte(token)) {
		t.Error("a code or a token stands in the file")
	}
}
