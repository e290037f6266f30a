package admin

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
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
		manage.Settings{URL: "http://127.0.0.1:1", Platforms: []relay.PlatformID{"pigeon"}})
}

// overSocket is a client of a Service in another process, as far as it can tell.
func overSocket(t *testing.T, dir string, svc *manage.Service) *Client {
	t.Helper()
	path := filepath.Join(dir, "admin.sock")
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: Handler(svc)}
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
		"local":  func(_ *testing.T, _ string, svc *manage.Service) *Client { return Local(svc) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := client(t, dir, service(t, dir))
			e, err := c.Enroll(t.Context(), manage.Enroll{Name: "home"})
			if err != nil {
				t.Fatal(err)
			}
			if e.Gateway != "home" || len(e.Secret) != 64 || e.Env["GATEWAY_RELAY_SECRET"] != e.Secret {
				t.Errorf("enrolled %s with a secret of %d bytes, the same in env: %t; want home, 64, true",
					e.Gateway, len(e.Secret), e.Env["GATEWAY_RELAY_SECRET"] == e.Secret)
			}
			_, err = c.Enroll(t.Context(), manage.Enroll{Name: "home"})
			refused, ok := errors.AsType[*manage.Error](err)
			if !ok || refused.Kind != manage.Exists || !strings.Contains(refused.Message, "rotate home") {
				t.Errorf("a second enroll: %v; want the refusal as it was made", err)
			}
			_, err = c.Enroll(t.Context(), manage.Enroll{Name: "a b"})
			if refused, ok := errors.AsType[*manage.Error](err); !ok || refused.Kind != manage.Usage || refused.Field != "gatewayId" {
				t.Errorf("an unfit name: %v; want the refusal as it was made", err)
			}
			rows, err := c.Audit(t.Context(), manage.AuditQuery{})
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != 1 || rows[0].Action != "enroll" || rows[0].ActorKind != store.ActorCLI || rows[0].Actor != whoami() || whoami() == "" { // invariant 4
				t.Errorf("audit list %+v; want the one enroll by %q", rows, whoami())
			}
			for op, call := range operations(c) {
				if err := call(t.Context()); err != nil && strings.Contains(err.Error(), "another version") {
					t.Errorf("%s: %v", op, err)
				}
			}
		})
	}
}

// operations are all methods of c, with arguments that change little.
func operations(c *Client) map[string]func(context.Context) error {
	home, letters := manage.Named{Name: "home"}, manage.Letters{Name: "home"}
	scope, ann := manage.Scope{Name: "home", Platform: "pigeon", Chat: "loft"}, manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}
	return map[string]func(context.Context) error{
		opEnrollToken: func(ctx context.Context) error { _, err := c.EnrollToken(ctx, manage.Enroll{Name: "new"}); return err },
		opGateways:    func(ctx context.Context) error { _, err := c.Gateways(ctx); return err },
		opGateway:     func(ctx context.Context) error { _, err := c.Gateway(ctx, home); return err },
		opRotate:      func(ctx context.Context) error { _, err := c.Rotate(ctx, home); return err },
		opRevoke:      func(ctx context.Context) error { _, err := c.Revoke(ctx, manage.Named{Name: "nobody"}); return err },
		opLink:        func(ctx context.Context) error { _, err := c.Link(ctx, manage.LinkFor{Name: "home"}); return err },
		opBind:        func(ctx context.Context) error { _, err := c.Bind(ctx, ann); return err },
		opUnbind:      func(ctx context.Context) error { _, err := c.Unbind(ctx, ann); return err },
		opClaim:       func(ctx context.Context) error { _, err := c.Claim(ctx, scope); return err },
		opRelease:     func(ctx context.Context) error { _, err := c.Release(ctx, scope); return err },
		opScopes:      func(ctx context.Context) error { _, err := c.Scopes(ctx, home); return err },
		opSetPrincipal: func(ctx context.Context) error {
			_, err := c.SetPrincipal(ctx, manage.SetPrincipal{Name: "home"})
			return err
		},
		opSetRelevance: func(ctx context.Context) error {
			_, err := c.SetRelevance(ctx, manage.SetRelevance{Name: "home"})
			return err
		},
		opStatus:       func(ctx context.Context) error { _, err := c.Status(ctx); return err },
		opExplain:      func(ctx context.Context) error { _, err := c.Explain(ctx, manage.Explain{}); return err },
		opEntries:      func(ctx context.Context) error { _, err := c.Entries(ctx, home); return err },
		opDead:         func(ctx context.Context) error { _, err := c.Dead(ctx, home); return err },
		opReplay:       func(ctx context.Context) error { _, err := c.Replay(ctx, letters); return err },
		opDrop:         func(ctx context.Context) error { _, err := c.Drop(ctx, letters); return err },
		opDMDefault:    func(ctx context.Context) error { _, err := c.SetDMDefault(ctx, ann); return err },
		opIdentity:     func(ctx context.Context) error { _, err := c.Identity(ctx, home); return err },
		opDropIdentity: func(ctx context.Context) error { _, err := c.DropIdentity(ctx, home); return err },
		opRoutes:       func(ctx context.Context) error { _, err := c.Routes(ctx, home); return err },
		opDropRoute: func(ctx context.Context) error {
			_, err := c.DropRoute(ctx, manage.RouteKey{Platform: "pigeon", Key: "x"})
			return err
		},
		opAudit:      func(ctx context.Context) error { _, err := c.Audit(ctx, manage.AuditQuery{}); return err },
		opQuarantine: func(ctx context.Context) error { _, err := c.Quarantine(ctx); return err },
	}
}

func TestMalformedRequestIsRefused(t *testing.T) {
	svc := service(t, t.TempDir())
	for _, body := range []string{"", "[]", `{"name":1}`, `"` + strings.Repeat("x", maxArgs) + `"`} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://admin/v1/enroll", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := local{Handler(svc)}.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(http.StatusBadRequest, resp.StatusCode); diff != "" {
			t.Errorf("%.20q (-want +got):\n%s", body, diff)
		}
	}
}
