package admin

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/vault"
)

// service is a Service over a database of its own.
func service(t *testing.T, dir string) *manage.Service {
	t.Helper()
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
	return manage.New(db, token.NewAuthority(db, v, time.Now), link.NewDesk(db, v, time.Now), v, &bus.Local{}, nil,
		manage.Settings{URL: "http://127.0.0.1:1", Networks: []platforms.Network{{Name: "pigeon"}}})
}

// overSocket is a client of a Service in another process, as far as it can tell.
func overSocket(t *testing.T, dir string, svc *manage.Service) *Client {
	t.Helper()
	path := filepath.Join(dir, "admin.sock")
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: Handler(svc, nil, Server{})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBothWaysDoTheSame(t *testing.T) { // invariant 3
	for name, client := range map[string]func(*testing.T, string, *manage.Service) *Client{
		"socket": overSocket,
		"local":  func(_ *testing.T, _ string, svc *manage.Service) *Client { return Local("", svc) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := client(t, dir, service(t, dir))
			e, err := Ask(t.Context(), c, ops.Enroll, manage.Enroll{Name: "home"})
			if err != nil {
				t.Fatal(err)
			}
			if e.Gateway != "home" || len(e.Secret) != 64 || e.Env["GATEWAY_RELAY_SECRET"] != e.Secret {
				t.Errorf("enrolled %s with a secret of %d bytes, the same in env: %t; want home, 64, true",
					e.Gateway, len(e.Secret), e.Env["GATEWAY_RELAY_SECRET"] == e.Secret)
			}
			_, err = Ask(t.Context(), c, ops.Enroll, manage.Enroll{Name: "home"})
			refused, ok := errors.AsType[*manage.Error](err)
			if !ok || refused.Why != manage.Exists || !slices.Equal(refused.Help, []string{"rotate", "home"}) {
				t.Errorf("a second enroll: %v; want the refusal as it was made", err)
			}
			_, err = Ask(t.Context(), c, ops.Enroll, manage.Enroll{Name: "a b"})
			if refused, ok := errors.AsType[*manage.Error](err); !ok || refused.Why != manage.Usage || refused.Field != "gatewayId" {
				t.Errorf("an unfit name: %v; want the refusal as it was made", err)
			}
			rows, err := Ask(t.Context(), c, ops.Audit, manage.AuditQuery{})
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != 1 || rows[0].Action != "enroll" || rows[0].ActorKind != audit.ActorCLI || rows[0].Actor != whoami() || whoami() == "" { // invariant 4
				t.Errorf("audit list %+v; want the one enroll by %q", rows, whoami())
			}
			all, want := operations(), []string(nil)
			for _, op := range ops.All() {
				if op.Command != "" {
					want = append(want, op.Name)
				}
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(all))); diff != "" { // invariant 5
				t.Errorf("the operator's operations (-) and what is asked for here (+):\n%s", diff)
			}
			for op, call := range all {
				if err := call(t.Context(), c); err != nil && strings.Contains(err.Error(), "another version") {
					t.Errorf("%s: %v", op, err)
				}
			}
		})
	}
}

// operations are all operations, with arguments that change little.
func operations() map[string]func(context.Context, *Client) error {
	home, letters := manage.Named{Name: "home"}, manage.Letters{Name: "home"}
	scope, ann := manage.Scope{Name: "home", Platform: "pigeon", Chat: "loft"}, manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}
	all := make(map[string]func(context.Context, *Client) error)
	try(all, ops.Enroll, manage.Enroll{Name: "home"})
	try(all, ops.EnrollToken, manage.Enroll{Name: "new"})
	try(all, ops.Gateways, struct{}{})
	try(all, ops.Gateway, home)
	try(all, ops.Rotate, home)
	try(all, ops.Revoke, manage.Named{Name: "nobody"})
	try(all, ops.Link, manage.LinkFor{Name: "home"})
	try(all, ops.Bind, ann)
	try(all, ops.Unbind, ann)
	try(all, ops.Claim, scope)
	try(all, ops.Release, scope)
	try(all, ops.Scopes, home)
	try(all, ops.Diagnose, manage.Look{})
	try(all, ops.SetPrincipal, manage.SetPrincipal{Name: "home"})
	try(all, ops.SetRelevance, manage.SetRelevance{Name: "home"})
	try(all, ops.SetQuiet, manage.SetQuiet{Name: "home"})
	try(all, ops.Rename, manage.Rename{Name: "nobody", To: "no"})
	try(all, ops.NamePerson, manage.NamePerson{Platform: "pigeon", User: "ann"})
	try(all, ops.NotifyTest, struct{}{})
	try(all, ops.Status, struct{}{})
	try(all, ops.Explain, manage.Explain{})
	try(all, ops.Entries, home)
	try(all, ops.Dead, home)
	try(all, ops.Replay, letters)
	try(all, ops.Drop, letters)
	try(all, ops.SetDMDefault, ann)
	try(all, ops.Identity, home)
	try(all, ops.DropIdentity, home)
	try(all, ops.Routes, home)
	try(all, ops.DropRoute, manage.RouteKey{Platform: "pigeon", Key: "x"})
	try(all, ops.Audit, manage.AuditQuery{})
	try(all, ops.Quarantine, struct{}{})
	try(all, ops.WebLink, struct{}{})
	try(all, ops.WebLogout, struct{}{})
	try(all, ops.Health, struct{}{})
	try(all, ops.Answers, manage.AnswerQuery{Name: "home"})
	try(all, ops.DropAnswers, manage.AnswerQuery{Name: "home"})
	try(all, ops.Callers, struct{}{})
	for _, op := range []ops.Op[manage.CallerFor, manage.CallerMade]{ops.AddCaller, ops.AllowCaller, ops.RotateCaller} {
		try(all, op, manage.CallerFor{Caller: "cron"})
	}
	try(all, ops.DenyCaller, manage.CallerFor{Caller: "cron"})
	try(all, ops.RemoveCaller, manage.CallerFor{Caller: "cron"})
	try(all, ops.Reload, struct{}{})
	return all
}

func try[A, R any](all map[string]func(context.Context, *Client) error, o ops.Op[A, R], args A) {
	all[o.Name] = func(ctx context.Context, c *Client) error {
		_, err := Ask(ctx, c, o, args)
		return err
	}
}

func TestMalformedRequestIsRefused(t *testing.T) {
	svc := service(t, t.TempDir())
	for _, body := range []string{"", "[]", `{"name":1}`, `"` + strings.Repeat("x", maxArgs) + `"`} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://admin/v1/enroll", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp := httptest.NewRecorder()
		Handler(svc, nil, Server{}).ServeHTTP(resp, req)
		if diff := cmp.Diff(http.StatusBadRequest, resp.Code); diff != "" {
			t.Errorf("%.20q (-want +got):\n%s", body, diff)
		}
	}
}

// TestAGatewaysOwnIsNotTheOperators: what no command asks for is not on the socket.
func TestAGatewaysOwnIsNotTheOperators(t *testing.T) {
	svc := service(t, t.TempDir())
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/"+ops.Provision.Name, strings.NewReader("{}"))
	resp := httptest.NewRecorder()
	if Handler(svc, nil, Server{}).ServeHTTP(resp, req); resp.Code != http.StatusNotFound {
		t.Errorf("a provision over the socket is answered with %d, want 404", resp.Code)
	}
}

func TestAServerSaysWhichItIs(t *testing.T) {
	self := Server{DataDir: "/srv/home", Config: "/etc/c.toml"}
	if got, err := served(t, Handler(nil, nil, self)).Server(t.Context()); err != nil || got != self {
		t.Errorf("Server = %v, %v; want %v", got, err, self)
	}
}

// TestElsewhere: a process that holds no database says who it is, and hands on the rest with who asks; what it is told by
// one who carries out, the client reads, and the audit list names whom that one names.
func TestElsewhere(t *testing.T) {
	dir := t.TempDir()
	svc := service(t, t.TempDir())
	self := Server{DataDir: dir}
	lost := false
	l, err := Listen(t.Context(), filepath.Join(dir, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	leader := Handler(svc, nil, Server{DataDir: "elsewhere"})
	srv := &http.Server{ConnContext: WithPeer, Handler: Elsewhere(self, func(user string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if lost {
				answer(w, http.StatusServiceUnavailable, &manage.Error{Message: "no node leads"})
				return
			}
			leader.ServeHTTP(w, WithUser(r, user+" at pi2"))
		})
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	defer func() { _ = srv.Close(); <-served }()
	c, err := Dial(t.Context(), filepath.Join(dir, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Server(t.Context()); err != nil || got != self {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Ask(t.Context(), c, ops.Enroll, manage.Enroll{Name: "home"}); err != nil {
		t.Fatal(err)
	}
	records, err := svc.Audit(t.Context(), manage.AuditQuery{})
	if err != nil || len(records) != 1 || records[0].Actor != whoami()+" at pi2" {
		t.Errorf("%+v, %v", records, err)
	}
	var refused *manage.Error
	if _, err := Ask(t.Context(), c, ops.Reload, struct{}{}); !errors.As(err, &refused) || refused.Why != manage.Offline {
		t.Errorf("reload: %v", err)
	}
	lost = true
	if _, err := c.Backup(t.Context(), io.Discard); err == nil || err.Error() != "no node leads" {
		t.Errorf("backup: %v", err)
	}
}
