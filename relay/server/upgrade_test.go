package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/api"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/hub"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/vault"
)

// patience bounds what a test waits for. Only a hang meets it, however busy the machine is.
const patience = time.Minute

// rig is a whole connector over the loopback network, on a loopback port.
type rig struct {
	t      *testing.T
	db     *store.DB
	auth   *token.Authority
	svc    *manage.Service
	net    *local.Network
	hub    *hub.Hub
	addr   string
	secret relay.Secret
	stop   func() error // ends Run and waits for it
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(filepath.Join(dir, "connector.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	v, err := vault.Open(t.Context(), db, vault.FileKey(filepath.Join(dir, "vault.key")))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, db: db, net: local.NewNetwork(), auth: token.NewAuthority(db, v, time.Now)}
	cred, g := r.auth.Issue("home")
	r.secret = cred.Secret
	g.Instance, g.Tenant = "home", relay.DefaultTenant
	if err := db.Enroll(t.Context(), nil, g, store.Instance{ID: "home", Tenant: g.Tenant, CreatedAt: g.CreatedAt}); err != nil {
		t.Fatal(err)
	}
	if err := db.Bind(t.Context(), nil, store.Binding{Platform: local.LoopbackID, User: "ann", Instance: "home", BoundAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	desk, b := link.NewDesk(db, v, time.Now), &bus.Local{}
	h := hub.New(db, desk, b, []platforms.Bot{local.NewLoopback(r.net, nil)}, hub.Options{})
	r.hub = h
	r.svc = manage.New(db, r.auth, desk, v, b, h, manage.Settings{Networks: []platforms.Network{local.LoopbackNetwork}, IdentityURLs: true})
	id, err := identity.New(db.Codes, v, db, identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// The limits stand still, so that a slow run counts like a fast one.
	failures, start := new(limits.Failures), time.Now()
	now := func() time.Time { return start }
	o := Options{
		Run:            "r1",
		Routes:         api.New(r.svc, r.auth, id, api.Options{Failures: failures, Now: now}).Routes(),
		Failures:       failures,
		Now:            now,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
	for _, c := range change {
		c(&o)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- New(h, r.auth, o).Run(ctx, t.Context(), door.Strangers(l, o.TrustedProxies, nil, slog.New(slog.DiscardHandler)))
	}()
	r.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

func (r *rig) bearer(exp time.Time) string { return "Bearer " + token.Mint("home", r.secret, exp) }

// dial upgrades with the given headers. resp is what a refused upgrade was answered.
func (r *rig) dial(header http.Header) (*websocket.Conn, *http.Response, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	conn, resp, err := websocket.Dial(ctx, "ws://"+r.addr+"/relay", &websocket.DialOptions{HTTPHeader: header})
	if err == nil {
		r.t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, resp, err
}

// closes reads until the connection ends and returns code and reason.
func closes(t *testing.T, conn *websocket.Conn) (websocket.StatusCode, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			ce, ok := errors.AsType[websocket.CloseError](err)
			if !ok {
				t.Fatalf("connection ended without a close: %v", err)
			}
			return ce.Code, ce.Reason
		}
	}
}

func TestUpgradeVerdicts(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	for name, tc := range map[string]struct {
		auth   string
		code   websocket.StatusCode
		reason string
	}{
		"no credential":         {"", session.CodeUnauthorized, "unauthorized"},
		"garbage":               {"Bearer garbage", session.CodeUnauthorized, "unauthorized"},
		"another scheme":        {"Basic aG9tZTp4", session.CodeUnauthorized, "unauthorized"},
		"an unknown gateway":    {"Bearer " + token.Mint("nobody", r.secret, now.Add(time.Hour)), session.CodeUnauthorized, "unauthorized"},
		"a wrong secret":        {"Bearer " + token.Mint("home", relay.NewSecret([]byte("wrong")), now.Add(time.Hour)), session.CodeUnauthorized, "unauthorized"},
		"expired beyond skew":   {r.bearer(now.Add(-2 * time.Minute)), websocket.StatusTryAgainLater, "expired"},
		"a wrong secret, dated": {"Bearer " + token.Mint("home", relay.NewSecret([]byte("wrong")), now.Add(-time.Hour)), session.CodeUnauthorized, "unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			if tc.auth != "" {
				header.Set("Authorization", tc.auth)
			}
			conn, _, err := r.dial(header)
			if err != nil {
				t.Fatalf("the upgrade itself was refused: %v", err)
			}
			if code, reason := closes(t, conn); code != tc.code || reason != tc.reason {
				t.Errorf("closed %d %q, want %d %q", code, reason, tc.code, tc.reason)
			}
		})
	}
	for name, exp := range map[string]func() time.Time{
		"a fresh token":           func() time.Time { return time.Now().Add(5 * time.Minute) },
		"one that never expires":  func() time.Time { return time.Time{} },
		"expired within the skew": func() time.Time { return time.Now().Add(-time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			conn, _, err := r.dial(http.Header{"Authorization": {r.bearer(exp())}})
			if err != nil {
				t.Fatal(err)
			}
			hello(t, conn)
		})
	}
}

// TestARefusedDialIsRemembered until a good one comes, if it names a gateway that exists.
func TestARefusedDialIsRemembered(t *testing.T) {
	r := newRig(t)
	dial := func(g relay.GatewayID, secret relay.Secret) *websocket.Conn {
		t.Helper()
		conn, _, err := r.dial(http.Header{"Authorization": {"Bearer " + token.Mint(g, secret, time.Time{})}})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	refused := func(n int) token.Dials {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for r.auth.Dials("home").Refused != n {
			select {
			case <-ctx.Done():
				t.Fatalf("%+v, want %d refused", r.auth.Dials("home"), n)
			case <-time.After(time.Millisecond):
			}
		}
		return r.auth.Dials("home")
	}
	wrong := relay.NewSecret([]byte("wrong"))
	closes(t, dial("nobody", wrong))
	closes(t, dial("home", wrong))
	refused(1)
	closes(t, dial("home", wrong))
	if d := refused(2); d.From != netip.MustParseAddr("127.0.0.1") || d.Since.IsZero() || d.Last.Before(d.Since) {
		t.Errorf("remembered %+v", d)
	}
	if d := r.auth.Dials("nobody"); d != (token.Dials{}) {
		t.Errorf("of nobody %+v is remembered", d)
	}
	hello(t, dial("home", r.secret))
	if d := refused(0); d.Came != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("after a good dial %+v is remembered", d)
	}
}

// hello introduces the loopback bot's gateway and reads the descriptor.
func hello(t *testing.T, conn *websocket.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	end := wiretest.Gateway(conn)
	if err := end.Send(ctx, wire.Hello{Platform: local.LoopbackID, BotID: local.Handle}); err != nil {
		t.Fatal(err)
	}
	f, err := end.Next(ctx)
	if _, ok := f.(wire.Descriptor); !ok {
		t.Fatalf("first frame = %T, %v, want the descriptor", f, err)
	}
}

func TestABrowserIsRefused(t *testing.T) {
	r := newRig(t)
	_, resp, err := r.dial(http.Header{"Authorization": {r.bearer(time.Time{})}, "Origin": {"http://" + r.addr}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("upgrade with an Origin: %v, %v, want 403", resp, err)
	}
}

func TestTooManyFailuresAreRefusedButNeverAGoodCredential(t *testing.T) {
	r := newRig(t)
	for i := range limits.MaxFailures {
		if _, _, err := r.dial(nil); err != nil {
			t.Fatalf("failure %d: the upgrade was refused: %v", i+1, err)
		}
	}
	_, resp, err := r.dial(nil)
	if err == nil || resp == nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Fatalf("one failure too many: %v, %v, want 429 with Retry-After", resp, err)
	}
	conn, _, err := r.dial(http.Header{"Authorization": {r.bearer(time.Time{})}})
	if err != nil {
		t.Fatalf("a good credential beside a bad neighbour: %v", err)
	}
	hello(t, conn)
}

// TestUpgradesElsewhere get 400, whatever a plain request there gets, and also
// with a good credential.
func TestUpgradesElsewhere(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/", "/relay/", "//relay", "/%72elay", "/x/relay", "/healthz", "/manage/self", "/relay/enroll"} {
		t.Run(path, func(t *testing.T) {
			_, resp, err := websocket.Dial(t.Context(), "ws://"+r.addr+path, &websocket.DialOptions{
				HTTPHeader: http.Header{"Authorization": {r.bearer(time.Time{})}},
			})
			if err == nil || resp == nil || resp.StatusCode != http.StatusBadRequest {
				t.Fatalf("upgrade: %v, %v, want 400", resp, err)
			}
			if body, err := io.ReadAll(resp.Body); err != nil || strings.TrimSpace(string(body)) != `{"error":"gateways dial /relay"}` {
				t.Errorf("answer %s, %v", body, err)
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	r := newRig(t)
	for name, tc := range map[string]struct {
		method, path string
		status       int
		body         string
	}{
		"health":                    {http.MethodGet, "/healthz", 200, `{"ok":true,"run":"r1"}`},
		"ready":                     {http.MethodGet, "/readyz", 200, `{"ready":true}`},
		"nothing at the root":       {http.MethodGet, "/", 404, `{"error":"not found"}`},
		"no cleaning of paths":      {http.MethodGet, "//healthz", 404, `{"error":"not found"}`},
		"no trailing slash":         {http.MethodGet, "/relay/", 404, `{"error":"not found"}`},
		"no redirect":               {http.MethodGet, "/x/../healthz", 404, `{"error":"not found"}`},
		"wrong method":              {http.MethodPost, "/relay", 405, `{"error":"method not allowed"}`},
		"a plain GET of the socket": {http.MethodGet, "/relay", 426, ""},
		"no decoding of paths":      {http.MethodGet, "/%72elay", 404, `{"error":"not found"}`},
		"the API":                   {http.MethodGet, "/manage/self", 401, `{"error":"unauthorized"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.path == "/readyz" { // the bot connects in the background
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := r.net.Say(ctx, local.Message{User: "eve", Text: "x"}); err != nil {
					t.Fatal(err)
				}
			}
			req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://"+r.addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.URL.Opaque = "//" + r.addr + tc.path // as it is
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tc.status || tc.body != "" && strings.TrimSpace(string(body)) != tc.body {
				t.Errorf("%d %s, %v; want %d %s", resp.StatusCode, body, err, tc.status, tc.body)
			}
		})
	}
}

func TestStopTellsTheGatewaysAndEnds(t *testing.T) {
	r := newRig(t)
	conn, _, err := r.dial(http.Header{"Authorization": {r.bearer(time.Time{})}})
	if err != nil {
		t.Fatal(err)
	}
	hello(t, conn)
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	if code, _ := closes(t, conn); code != websocket.StatusGoingAway {
		t.Errorf("closed with %d at the stop, want 1001", code)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if _, _, err := r.dial(nil); err == nil {
		t.Error("a connection was accepted after the stop")
	}
}
