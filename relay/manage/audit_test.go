package manage_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

// Invariant 5.
func TestEveryChangeLeavesARow(t *testing.T) {
	home, yes := manage.Named{Name: "home"}, true
	ann := manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}
	loft := manage.Scope{Name: "home", Platform: "pigeon", Chat: "loft"}
	routes := boot("pigeon")
	routes.Gateway, routes.RouteKeys = "home", []string{"nest"}
	for _, step := range []struct {
		name string
		do   func(context.Context, *world) error
		want []manage.AuditRow // without time and actor
		once bool              // doing it again changes something
	}{
		{"enroll", func(ctx context.Context, w *world) error {
			_, err := w.Enroll(ctx, operator, manage.Enroll{Name: "home"})
			return err
		},
			[]manage.AuditRow{{Action: "enroll", Gateway: "home"}}, false},
		{"enroll token", func(ctx context.Context, w *world) error {
			_, err := w.EnrollToken(ctx, operator, manage.Enroll{Name: "attic"})
			return err
		}, []manage.AuditRow{
			{Action: "enroll-token", Instance: "attic", Gateway: "attic"},
			{Action: "identity", Instance: "attic", Detail: "new identity URL"},
		}, true},
		{"provision", func(ctx context.Context, w *world) error {
			_, err := w.Provision(ctx, operator, boot("pigeon"))
			return err
		},
			[]manage.AuditRow{{Action: "provision", Gateway: "gw-box", Detail: "new gateway"}}, false},
		{"routes", func(ctx context.Context, w *world) error { _, err := w.Provision(ctx, operator, routes); return err },
			[]manage.AuditRow{{Action: "route", Gateway: "home", Detail: "1 declared on pigeon"}}, false},
		{"drop a route", func(ctx context.Context, w *world) error {
			_, err := w.DropRoute(ctx, operator, manage.RouteKey{Platform: "pigeon", Key: "nest"})
			return err
		}, []manage.AuditRow{{Action: "route", Tenant: "-", Instance: "-", Detail: "dropped pigeon nest"}}, false},
		{"rotate", func(ctx context.Context, w *world) error { _, err := w.Rotate(ctx, operator, home); return err },
			[]manage.AuditRow{{Action: "rotate", Gateway: "home"}}, true},
		{"identity", func(ctx context.Context, w *world) error { _, err := w.Identity(ctx, operator, home); return err },
			[]manage.AuditRow{{Action: "identity", Detail: "new identity URL"}}, true},
		{"drop the identity", func(ctx context.Context, w *world) error { _, err := w.DropIdentity(ctx, operator, home); return err },
			[]manage.AuditRow{{Action: "identity", Detail: "identity URL revoked"}}, false},
		{"link", func(ctx context.Context, w *world) error {
			_, err := w.Link(ctx, operator, manage.LinkFor{Name: "home"})
			return err
		},
			[]manage.AuditRow{{Action: "link-code"}}, true},
		{"bind", func(ctx context.Context, w *world) error { _, err := w.Bind(ctx, operator, ann); return err },
			[]manage.AuditRow{{Action: "bind", Detail: "pigeon person ann"}}, false},
		{"dm default", func(ctx context.Context, w *world) error { _, err := w.SetDMDefault(ctx, operator, ann); return err },
			[]manage.AuditRow{{Action: "dm-default", Detail: "pigeon person ann"}}, false},
		{"claim", func(ctx context.Context, w *world) error { _, err := w.Claim(ctx, operator, loft); return err },
			[]manage.AuditRow{{Action: "claim", Detail: "pigeon chat loft"}}, false},
		{"release", func(ctx context.Context, w *world) error { _, err := w.Release(ctx, operator, loft); return err },
			[]manage.AuditRow{{Action: "release", Detail: "pigeon chat loft"}}, false},
		{"claim for itself", func(ctx context.Context, w *world) error { _, err := w.ClaimOwned(ctx, operator, loft); return err },
			[]manage.AuditRow{{Action: "claim", Detail: "pigeon chat loft of scope tower"}}, false},
		{"principal", func(ctx context.Context, w *world) error {
			_, err := w.SetPrincipal(ctx, operator, manage.SetPrincipal{Name: "home", Policy: relay.AnyOne})
			return err
		}, []manage.AuditRow{{Action: "principal", Detail: "any"}}, false},
		{"quiet hours", func(ctx context.Context, w *world) error {
			_, err := w.SetQuiet(ctx, operator, manage.SetQuiet{Name: "home", Hours: "22:00-07:00", Zone: "Europe/Berlin"})
			return err
		}, []manage.AuditRow{{Action: "quiet", Detail: "22:00-07:00 Europe/Berlin"}}, false},
		{"principal list", func(ctx context.Context, w *world) error {
			_, err := w.SetPrincipal(ctx, operator, manage.SetPrincipal{Name: "home", Policy: relay.AllowList, Allow: []store.Person{
				{Platform: "pigeon", User: "ann"}, {Platform: "raven", User: "bea"},
			}})
			return err
		}, []manage.AuditRow{{Action: "principal", Detail: "allow-list pigeon:ann raven:bea"}}, false},
		{"policy", func(ctx context.Context, w *world) error {
			_, err := w.SetRelevance(ctx, operator, manage.SetRelevance{Name: "home", Platform: "pigeon", AllowBots: &yes})
			return err
		}, []manage.AuditRow{{Action: "policy", Detail: "pigeon allowOtherBots=true"}}, false},
		{"a gateway's policy", func(ctx context.Context, w *world) error {
			free := []relay.ChatID{"loft", "nest"}
			_, err := w.SetRelevance(ctx, operator, manage.SetRelevance{Name: "home", Platform: "pigeon", RequireAddress: new(bool), Free: &free, AllowBots: &yes})
			return err
		}, []manage.AuditRow{{Action: "policy", Detail: "pigeon requireAddress=false allowOtherBots=true freeResponseScopes=[loft nest]"}}, false},
		{"replay", func(ctx context.Context, w *world) error {
			_, err := w.Replay(ctx, operator, manage.Letters{Name: "home"})
			return err
		}, []manage.AuditRow{{Action: "replay"}}, false},
		{"drop", func(ctx context.Context, w *world) error {
			all, err := w.Entries(ctx, home)
			if err != nil || len(all) == 0 {
				return err
			}
			_, err = w.Drop(ctx, operator, manage.Letters{Name: "home", Buffers: []string{all[0].Buffer, all[0].Buffer}}) // twice is once
			return err
		}, []manage.AuditRow{{Action: "drop"}}, false},
		{"unbind", func(ctx context.Context, w *world) error { _, err := w.Unbind(ctx, operator, ann); return err },
			[]manage.AuditRow{{Action: "unbind", Detail: "pigeon person ann"}}, false},
		{"revoke", func(ctx context.Context, w *world) error { _, err := w.Revoke(ctx, operator, home); return err },
			[]manage.AuditRow{{Action: "revoke", Gateway: "home"}}, false},
		{"deprovision", func(ctx context.Context, w *world) error { _, err := w.Deprovision(ctx, operator, home); return err },
			[]manage.AuditRow{{Action: "deprovision"}}, false},
	} {
		t.Run(step.name, func(t *testing.T) {
			w := auditedWorld(t, step.name)
			ctx := t.Context()
			for n := range 2 {
				before, err := w.Audit(ctx, manage.AuditQuery{})
				if err != nil {
					t.Fatal(err)
				}
				if err := step.do(ctx, w); n == 0 && err != nil {
					t.Fatal(err)
				}
				after, err := w.Audit(ctx, manage.AuditQuery{})
				if err != nil {
					t.Fatal(err)
				}
				var want []manage.AuditRow
				for _, r := range step.want {
					r.At, r.ActorKind, r.Actor = noon, operator.Kind, operator.Name
					r.Tenant, r.Instance = defaulted(r.Tenant), defaulted(r.Instance)
					want = append(want, r)
				}
				if n == 1 && !step.once {
					want = nil
				}
				if diff := cmp.Diff(want, append([]manage.AuditRow(nil), after[len(before):]...)); diff != "" {
					t.Errorf("time %d: rows (-want +got):\n%s", n+1, diff)
				}
			}
		})
	}
}

// defaulted is "home" for an empty id, and none for "-".
func defaulted[S ~string](s S) S {
	switch s {
	case "":
		return "home"
	case "-":
		return ""
	}
	return s
}

// auditedWorld is a world in which the step changes something.
func auditedWorld(t *testing.T, step string) *world {
	w := newWorld(t, nil)
	if step == "enroll" {
		return w
	}
	w.live = &server{manages: places{"loft": {Platform: "pigeon", Scope: "tower", Chat: "loft"}}}
	w.change(func(*manage.Settings) {})
	w.enroll(t, "home")
	ann := manage.Bind{Name: "home", Platform: "pigeon", User: "ann"}
	var err error
	switch step {
	case "drop a route":
		p := boot("pigeon")
		p.Gateway, p.RouteKeys = "home", []string{"nest"}
		w.provision(t, p)
	case "drop the identity":
		_, err = w.Identity(t.Context(), system, manage.Named{Name: "home"})
	case "dm default", "unbind":
		_, err = w.Bind(t.Context(), system, ann)
	case "release":
		_, err = w.Claim(t.Context(), system, manage.Scope{Name: "home", Platform: "pigeon", Chat: "loft"})
	case "replay", "drop":
		ids := w.put(t, "home", "e1")
		if step == "replay" {
			err = w.db.Lanes.Bury(t.Context(), "home", ids[0], store.DeadPoison)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAuditShowsTheNewest(t *testing.T) {
	w := newWorld(t, nil)
	w.enroll(t, "home", "attic", "cellar")
	p := boot("pigeon")
	p.Instance = "attic"
	w.provision(t, p)
	for name, tc := range map[string]struct {
		query manage.AuditQuery
		want  []string // gateways
	}{
		"all":             {manage.AuditQuery{}, []string{"home", "attic", "cellar", "gw-box"}},
		"two":             {manage.AuditQuery{Limit: 2}, []string{"cellar", "gw-box"}},
		"more than all":   {manage.AuditQuery{Limit: 9}, []string{"home", "attic", "cellar", "gw-box"}},
		"an instance":     {manage.AuditQuery{Name: "attic"}, []string{"attic", "gw-box"}},
		"its newest":      {manage.AuditQuery{Name: "attic", Limit: 1}, []string{"gw-box"}},
		"an older one":    {manage.AuditQuery{Name: "home", Limit: 1}, []string{"home"}},
		"a gateway":       {manage.AuditQuery{Name: "gw-box"}, []string{"gw-box"}},
		"nobody":          {manage.AuditQuery{Name: "nobody"}, []string{}},
		"nobody, limited": {manage.AuditQuery{Name: "nobody", Limit: 1}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := w.Audit(t.Context(), tc.query)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, r := range rows {
				got = append(got, string(r.Gateway))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
	rows, err := w.Audit(t.Context(), manage.AuditQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"at": "2026-11-21T12:00:00Z", "actorKind": "system", "action": "provision", "tenant": "home", "instanceId": "attic",
		"gatewayId": "gw-box", "detail": "new gateway",
	}
	if diff := cmp.Diff(want, keysOf(t, rows[0])); diff != "" { // invariant 4
		t.Errorf("row (-want +got):\n%s", diff)
	}
	_, err = w.Audit(t.Context(), manage.AuditQuery{Limit: -1})
	wantField(t, err, "limit")
}
