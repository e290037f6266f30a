package api

import (
	"context"
	"encoding/json"
	"maps"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// asks returns a route that carries out the operation do on the caller's instance: read makes the operation's arguments
// from the instance's name and the body.
func asks[In, Out any](read func(name string, b *body) In, do func(context.Context, *manage.Service, audit.Actor, In) (Out, error)) handler {
	return byManager(func(a *API, ctx context.Context, c caller, r *request) (any, error) {
		b, err := readBody(r, bodyTime)
		if err != nil {
			return nil, err
		}
		in := read(string(c.instance), b)
		if b.err != nil {
			return nil, b.err
		}
		return do(ctx, a.svc, c.actor, in)
	})
}

// plain makes a route whose body holds the operation's arguments, except for the name: that is the caller's instance.
func plain(op *ops.Row) handler {
	return byManager(func(a *API, ctx context.Context, c caller, r *request) (any, error) {
		b, err := readBody(r, bodyTime)
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(b.members, func(member string, _ json.RawMessage) bool { return strings.EqualFold(member, "name") })
		if b.members["name"], err = json.Marshal(c.instance); err != nil {
			return nil, err
		}
		args, err := json.Marshal(b.members)
		if err != nil {
			return nil, err
		}
		return op.Carry(ctx, a.svc, c.actor, args)
	})
}

// self returns the instance's description: what it holds, and what it lacks.
func (a *API) self(ctx context.Context, c caller, _ *request) (any, error) {
	return ops.Self.Do(ctx, a.svc, c.actor, manage.Named{Name: string(c.instance)})
}

// named accepts any object, which it ignores: a body is required, so that nobody calls the route by mistake.
func named(name string, _ *body) manage.Named { return manage.Named{Name: name} }

// deprovisioned is the answer to deprovision.
type deprovisioned struct {
	OK bool `json:"ok"`
	manage.Deprovisioned
}

// deprovision revokes every gateway of the instance, and drops everything that it holds.
func deprovision(ctx context.Context, s *manage.Service, by audit.Actor, n manage.Named) (deprovisioned, error) {
	gone, err := ops.Deprovision.Do(ctx, s, by, n)
	return deprovisioned{OK: true, Deprovisioned: gone}, err
}

func linkFor(name string, b *body) manage.LinkFor {
	return manage.LinkFor{Name: name, Platform: optionalID[relay.PlatformID](b, "platform"), Commands: b.optionalTexts("commands")}
}

func bind(name string, b *body) manage.Bind {
	return manage.Bind{Name: name, Platform: id[relay.PlatformID](b, "platform"), User: id[relay.UserID](b, "userId")}
}

func principal(name string, b *body) manage.SetPrincipal {
	return manage.SetPrincipal{Name: name, Policy: relay.PrincipalPolicy(b.text("policy")), Allow: b.people("allow")}
}

func scope(name string, b *body) manage.Scope {
	s := manage.Scope{
		Name:     name,
		Platform: id[relay.PlatformID](b, "platform"),
		Scope:    optionalID[relay.ScopeID](b, "scopeId"),
		Chat:     optionalID[relay.ChatID](b, "chatId"),
	}
	if s.Scope == "" && s.Chat == "" {
		b.member("chatId").fault("missing, and so is scopeId")
	}
	return s
}
