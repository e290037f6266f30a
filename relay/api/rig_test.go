package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/vault"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// rig is an API over a real service, store, vault, authority and verifier. Two tenants live in
// it: "home" with the gateway "gw" and the person ann, "away" with the gateway "other" and bob.
type rig struct {
	*API
	t      *testing.T
	db     *store.DB
	auth   *token.Authority
	live   *live
	log    bytes.Buffer
	told   []bus.Note
	key    *rsa.PrivateKey // of managed tokens, with jwks
	secret map[relay.GatewayID]relay.Secret
	clock  time.Time
	from   netip.Addr // of the calls
}

// newRig makes a rig in the identity mode o says. With jwks, the keys are made here.
func newRig(t *testing.T, o identity.Options) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{
		t: t, live: &live{manages: make(map[relay.ChatID]relay.Place)}, secret: make(map[relay.GatewayID]relay.Secret),
		clock: noon, from: netip.MustParseAddr("192.0.2.1"),
	}
	now := func() time.Time { return r.clock }
	var err error
	if r.db, err = store.Open(filepath.Join(dir, "connector.db"), store.Options{Now: now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.db.Close(); err != nil {
			t.Error(err)
		}
	})
	v, err := vault.Open(t.Context(), r.db, vault.FileKey(filepath.Join(dir, "vault.key")))
	must.Succeed(t, err)
	if o.Mode == identity.JWKS {
		o.Issuer, o.Audience, o.JWKSFile = "issuer", "connector", r.writeKeys(dir)
	}
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Now, o.Log = now, log
	id, err := identity.New(r.db.Codes, v, r.db, o)
	must.Succeed(t, err)
	r.auth = token.NewAuthority(r.db, v, now)
	b := &bus.Local{}
	t.Cleanup(b.Subscribe(func(n bus.Note) { r.told = append(r.told, n) }))
	svc := manage.New(r.db, r.auth, link.NewDesk(r.db, v, now), v, b, r.live, manage.Settings{
		URL: "https://relay.example.net", Networks: []platforms.Network{{Name: "pigeon"}}, Now: now,
		IdentityURLs: o.Mode == "" || o.Mode == identity.None,
	})
	r.API = New(svc, r.auth, id, Options{Log: log, Now: now})
	for g, tenant := range map[string]string{"gw": "home", "other": "away"} {
		e, err := svc.Enroll(t.Context(), audit.Actor{}, manage.Enroll{Name: g, Tenant: tenant})
		must.Succeed(t, err)
		r.secret[e.Gateway] = relay.NewSecret([]byte(e.Secret))
	}
	for user, g := range map[relay.UserID]string{"ann": "gw", "bob": "other"} {
		if _, err := svc.Bind(t.Context(), audit.Actor{}, manage.Bind{Name: g, Platform: "pigeon", User: user}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// writeKeys makes the key of managed tokens and the file that names it.
func (r *rig) writeKeys(dir string) string {
	r.t.Helper()
	var err error
	if r.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		r.t.Fatal(err)
	}
	enc := base64.RawURLEncoding
	raw, err := json.Marshal(map[string]any{"keys": []any{map[string]string{
		"kty": "RSA", "kid": "k", "alg": "RS256",
		"n": enc.EncodeToString(r.key.N.Bytes()), "e": enc.EncodeToString(big.NewInt(int64(r.key.E)).Bytes()),
	}}})
	must.Succeed(r.t, err)
	path := filepath.Join(dir, "jwks.json")
	must.Succeed(r.t, os.WriteFile(path, raw, 0o600))
	return path
}

// gw is the bearer of a gateway.
func (r *rig) gw(g relay.GatewayID) string {
	return token.Mint(g, r.secret[g], r.clock.Add(5*time.Minute))
}

// jwt is a token of the issuer's for audience aud, with a tenant unless that is empty.
func (r *rig) jwt(aud, tenant string) string {
	claims := jwt.MapClaims{"iss": "issuer", "aud": aud, "sub": "console", "exp": r.clock.Add(time.Minute).Unix()}
	if tenant != "" {
		claims["tenant"] = tenant
	}
	t := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	t.Header["kid"] = "k"
	s, err := t.SignedString(r.key)
	must.Succeed(r.t, err)
	return s
}

// code is the code in a new identity URL of an instance.
func (r *rig) code(name string) string {
	r.t.Helper()
	u, err := r.svc.Identity(r.t.Context(), audit.Actor{}, manage.Named{Name: name})
	must.Succeed(r.t, err)
	return u.URL[strings.LastIndexByte(u.URL, '/')+1:]
}

// ambient is an identity token of an instance.
func (r *rig) ambient(name string) string {
	r.t.Helper()
	return r.minted(r.code(name))
}

func (r *rig) minted(code string) string {
	r.t.Helper()
	minted, _, err := r.id.Mint(r.t.Context(), code)
	must.Succeed(r.t, err)
	return minted
}

// enrollment is a new enrollment token, and the code in the URL beside it.
func (r *rig) enrollment(e manage.Enroll) (enrollment, code string) {
	r.t.Helper()
	et, err := r.svc.EnrollToken(r.t.Context(), audit.Actor{}, e)
	must.Succeed(r.t, err)
	return et.Token, et.IdentityURL[strings.LastIndexByte(et.IdentityURL, '/')+1:]
}

// response is what a caller sees.
type response struct {
	code   int
	header http.Header
	body   map[string]any
	raw    string
}

// text is a member of the answer.
func (r response) text(name string) string { s, _ := r.body[name].(string); return s }

// call makes a request; every answer must be an object, not cached, and no redirect. body is text
// as it is, anything else as JSON; nil is none.
func (r *rig) call(method, path, bearer string, body any) response {
	r.t.Helper()
	var text string
	switch b := body.(type) {
	case nil:
	case string:
		text = b
	default:
		raw, err := json.Marshal(b)
		must.Succeed(r.t, err)
		text = string(raw)
	}
	req := httptest.NewRequestWithContext(r.t.Context(), method, "https://relay.example.net"+path, strings.NewReader(text))
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	return r.send(req)
}

// door is what the routes stand behind.
func (r *rig) door() http.Handler { return routes.New(nil, r.Routes()...) }

func (r *rig) send(req *http.Request) response {
	r.t.Helper()
	w := httptest.NewRecorder()
	req.RemoteAddr = netip.AddrPortFrom(r.from, 1).String()
	r.door().ServeHTTP(w, req)
	out := response{code: w.Code, header: w.Header(), raw: w.Body.String()}
	if err := json.Unmarshal(w.Body.Bytes(), &out.body); err != nil || out.body == nil {
		r.t.Errorf("%s %s: answer %q is no object: %v", req.Method, req.URL.Path, out.raw, err)
	}
	h := out.header
	if h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" || h.Get("Location") != "" {
		r.t.Errorf("%s %s: headers %v", req.Method, req.URL.Path, h)
	}
	return out
}

// want fails unless the answer has this code, and as an error this text.
func (r response) want(t *testing.T, code int, text string) {
	t.Helper()
	if r.code != code || code != http.StatusOK && r.text("error") != text {
		t.Errorf("answer %d %s, want %d %q", r.code, r.raw, code, text)
	}
}

// live is a running server whose chats the test arranges.
type live struct {
	connected relay.InstanceID
	manages   map[relay.ChatID]relay.Place // what the people of every instance manage
}

func (l *live) Bots() []platforms.Bot                             { return []platforms.Bot{pigeon{}} }
func (l *live) Connected(i relay.InstanceID) bool                 { return i == l.connected }
func (l *live) Serves(_ relay.GatewayID, i relay.InstanceID) bool { return i == l.connected }
func (l *live) Answers(_ context.Context, g relay.GatewayID, i relay.InstanceID) bool {
	return l.Serves(g, i)
}
func (l *live) Warning(relay.InstanceID) string                         { return "" }
func (l *live) Unfronted(relay.InstanceID) []relay.Bot                  { return nil }
func (l *live) Fronts(relay.InstanceID, ...relay.Bot) bool              { return true }
func (l *live) Counters() map[string]uint64                             { return nil }
func (l *live) Decisions() []gate.Decision                              { return nil }
func (l *live) Forget(relay.InstanceID, relay.PlatformID, relay.UserID) {}
func (l *live) Ready() bool                                             { return true }
func (l *live) MayClaim(_ context.Context, _ relay.InstanceID, _ relay.PlatformID, _ relay.ScopeID, c relay.ChatID) (relay.Place, bool) {
	p, ok := l.manages[c]
	return p, ok
}

// pigeon is a bot with deep links.
type pigeon struct{}

func (pigeon) ID() relay.Bot                { return relay.Bot{Platform: "pigeon", ID: "1"} }
func (pigeon) Descriptor() relay.Descriptor { return relay.Bare("pigeon") }
func (pigeon) Status() platforms.Status {
	return platforms.Status{State: platforms.Connected, Name: "coo"}
}
func (pigeon) Run(context.Context, platforms.Inbox) error { return nil }
func (pigeon) DeepLink(code string) (string, bool) {
	return "https://coo.example/?a=1&code=" + code, true
}
func (pigeon) Send(context.Context, relay.Send) (relay.Result, error) {
	return relay.Result{}, relay.Unsupported(relay.OpSend)
}
