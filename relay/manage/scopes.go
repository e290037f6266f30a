package manage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// chats has the operations that decide which chat belongs to which instance.
type chats struct {
	directory
	*surroundings
}

// Scope names a chat, or with an empty Chat a whole scope, and an instance.
type Scope struct {
	Name     string           `json:"name"`
	Platform relay.PlatformID `json:"platform"`
	Scope    relay.ScopeID    `json:"scopeId,omitempty"`
	Chat     relay.ChatID     `json:"chatId,omitempty"`
}

// Grant says that a chat belongs to an instance.
type Grant struct {
	Platform  relay.PlatformID `json:"platform"`
	Scope     relay.ScopeID    `json:"scopeId,omitempty"`
	Chat      relay.ChatID     `json:"chatId,omitempty"`
	Instance  relay.InstanceID `json:"instanceId"`
	Tenant    relay.TenantID   `json:"tenant"`
	GrantedAt time.Time        `json:"grantedAt,omitzero"`
	Gateway   string           `json:"gatewayName,omitempty"` // the name that the instance was given
	Warnings  []string         `json:"warnings,omitempty"`    // why the grant has no effect yet, in sentences
}

// Claim grants a chat or a whole scope that nobody else holds to an instance. A second Claim changes nothing. Refused
// with NotFound, Usage or Held.
func (s *chats) Claim(ctx context.Context, by audit.Actor, c Scope) (Grant, error) {
	c, err := s.locate(ctx, c)
	if err != nil {
		return Grant{}, err
	}
	i, err := s.served(ctx, c.Name)
	if err != nil {
		return Grant{}, err
	}
	g := store.Grant{Platform: c.Platform, Scope: c.Scope, Chat: c.Chat, Instance: i.ID, Tenant: i.Tenant, GrantedAt: s.set.Now()}
	err = s.db.Claim(ctx, row(by, "claim", i, spell(g)), g)
	if errors.Is(err, store.ErrHeld) {
		return Grant{}, s.refuseHeld(ctx, g)
	}
	out, err := s.granted(ctx, g, err)
	out.Warnings = s.warnBotless(c.Platform)
	return out, err
}

// refuseHeld returns the refusal to grant a chat that another instance holds as a whole or in part. It names the holder
// and the operation that releases the chat, so only the operator may read it: a gateway is not told about others.
func (s *chats) refuseHeld(ctx context.Context, wanted store.Grant) error {
	all, err := s.db.Grants(ctx, store.GrantFilter{Platform: wanted.Platform})
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.Instance == wanted.Instance || g.Scope != wanted.Scope || g.Chat != wanted.Chat {
			continue
		}
		args := []string{"release", string(g.Instance), string(g.Platform)}
		if g.Chat != "" {
			args = append(args, string(g.Chat))
		}
		if g.Scope != "" {
			args = append(args, "--server", string(g.Scope))
		}
		return refuse(Held, "that chat belongs to %q, which must release it first", s.called(ctx, g.Instance)).try(args...)
	}
	return refuse(Held, "another gateway has that chat and must release it first").try("scopes")
}

// ClaimOwned is Claim by a gateway for its own instance. It may claim a chat that a person bound to it sees and manages, unless
// a route reserves the chat for another tenant. The platform says in which scope the chat lies. A thread is granted without
// its parent. Refused with NotFound, Usage, Held, Forbidden, or, without a server, Offline.
func (s *chats) ClaimOwned(ctx context.Context, by audit.Actor, c Scope) (Grant, error) {
	if err := s.checkScope(c); err != nil {
		return Grant{}, err
	}
	i, err := s.served(ctx, c.Name)
	if err != nil {
		return Grant{}, err
	}
	if s.live == nil {
		return Grant{}, refuse(Offline, "no server is running: only the bots of a running server know who manages a chat")
	}
	place, ok := s.live.MayClaim(ctx, i.ID, c.Platform, c.Scope, c.Chat)
	if !ok {
		return Grant{}, notYours()
	}
	g := store.Grant{
		Platform: place.Platform, Scope: place.Scope, Chat: place.Chat, Instance: i.ID, Tenant: i.Tenant, GrantedAt: s.set.Now(),
	}
	err = s.db.Claim(ctx, row(by, "claim", i, spell(g)), g, store.Own{Parent: place.Parent})
	switch {
	case errors.Is(err, store.ErrHeld):
		return Grant{}, refuse(Held, "another gateway has that chat")
	case errors.Is(err, store.ErrReserved):
		return Grant{}, notYours()
	case errors.Is(err, store.ErrNotFound): // revoked meanwhile
		return Grant{}, revoked(c.Name)
	}
	return s.granted(ctx, g, err)
}

// granted returns the result of a claim of g that ended with err: the grant as it is stored, which may be older than
// the claim.
func (s *chats) granted(ctx context.Context, g store.Grant, err error) (Grant, error) {
	if err != nil {
		return Grant{}, err
	}
	place := relay.Place{Platform: g.Platform, Scope: g.Scope, Chat: g.Chat}
	held, ok, err := store.First(s.db.Grants(ctx, store.GrantFilter{Covering: &place}))
	if err == nil && ok && held.Instance == g.Instance {
		g = held
	}
	return s.grant(ctx, g), err
}

// notYours returns the same refusal for every reason, so that the gateway learns nothing about the chat.
func notYours() *Error {
	return refuse(Forbidden, "a chat can be claimed only if somebody linked to this gateway is a member of it and manages it")
}

// spell names a grant's chat in the audit list.
func spell(g store.Grant) string {
	return string(g.Platform) + " " + Grant{Scope: g.Scope, Chat: g.Chat}.Where()
}

// Where names the chat, or the whole scope, on its network.
func (g Grant) Where() string {
	switch {
	case g.Chat == "":
		return "server " + string(g.Scope)
	case g.Scope == "":
		return "chat " + string(g.Chat)
	}
	return "chat " + string(g.Chat) + " of server " + string(g.Scope)
}

// locateWithin bounds how long the platforms are asked where a chat lies.
const locateWithin = 5 * time.Second

// locate checks c, and fills in the chat's scope if a running bot knows it. A grant under another scope would cover nothing.
func (s *chats) locate(ctx context.Context, c Scope) (Scope, error) {
	err := cmp.Or(s.checkScope(c), s.checkIDOn("chatId", c.Platform, string(c.Chat)), s.checkScopeID(c))
	if err != nil || c.Chat == "" || s.live == nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, locateWithin)
	defer cancel()
	for _, p := range s.live.Bots() {
		l, ok := p.(platforms.Locator)
		if !ok || p.ID().Platform != c.Platform {
			continue
		}
		place, err := l.Locate(ctx, c.Chat)
		switch {
		case err != nil || place.Scope == "":
		case c.Scope == "" || c.Scope == place.Scope:
			c.Scope = place.Scope
			return c, nil
		default:
			return c, unfit("scopeId", "chat %s lies in scope %s: give --scope %s, or none", c.Chat, place.Scope, place.Scope)
		}
	}
	return c, nil
}

// Release undoes Claim. Without a scope it releases the chat with that id that the instance holds, in any scope.
// Refused with NotFound, also if the instance holds no such grant.
func (s *chats) Release(ctx context.Context, by audit.Actor, c Scope) (Grant, error) {
	if err := s.checkScope(c); err != nil {
		return Grant{}, err
	}
	i, err := s.instance(ctx, c.Name)
	if err != nil {
		return Grant{}, err
	}
	g := store.Grant{Platform: c.Platform, Scope: c.Scope, Chat: c.Chat, Instance: i.ID, Tenant: i.Tenant}
	if c.Scope == "" {
		held, err := s.db.Grants(ctx, store.GrantFilter{Instance: i.ID})
		if err != nil {
			return Grant{}, err
		}
		same := func(h store.Grant) bool { return h.Platform == c.Platform && h.Chat == c.Chat }
		if i := slices.IndexFunc(held, same); i >= 0 { // a grant without a scope comes before the others
			g.Scope = held[i].Scope
		}
	}
	err = s.db.Release(ctx, row(by, "release", i, spell(g)), i.ID, g.Platform, g.Scope, g.Chat)
	if errors.Is(err, store.ErrNotFound) {
		return Grant{}, refuse(NotFound, "that chat does not belong to %q", c.Name).try("scopes", c.Name)
	}
	return s.grant(ctx, g), err
}

// checkScopeID refuses a scope on a network without scopes, and an id that no scope there can have.
func (s *chats) checkScopeID(c Scope) error {
	if c.Scope == "" {
		return nil
	}
	if kind, err := s.network(c.Platform); err == nil && kind.Unscoped {
		return unfit("scopeId", "the chats of %s lie in no server: name the chat, without --server", kind.Label)
	}
	return s.checkIDOn("scopeId", c.Platform, string(c.Scope))
}

// checkScope refuses an unknown network, ids that no platform can have, and a Scope that names neither a scope nor a chat.
func (s *chats) checkScope(c Scope) error {
	if _, err := s.network(c.Platform); err != nil {
		return err
	}
	if c.Scope != "" {
		if err := checkID("scopeId", "scope", string(c.Scope)); err != nil {
			return err
		}
		if c.Chat == "" {
			return nil
		}
	}
	return checkID("chatId", "chat", string(c.Chat))
}

// Scopes lists the grants of an instance or, with an empty name, of all. Refused with NotFound.
func (s *chats) Scopes(ctx context.Context, n Named) ([]Grant, error) {
	of, err := s.maybe(ctx, n)
	if err != nil {
		return nil, err
	}
	return s.grants(ctx, of.ID)
}

func (d directory) grant(ctx context.Context, g store.Grant) Grant {
	return Grant{
		Platform: g.Platform, Scope: g.Scope, Chat: g.Chat, Instance: g.Instance, Tenant: g.Tenant, GrantedAt: g.GrantedAt.UTC(),
		Gateway: d.label(ctx, g.Instance),
	}
}

// Route keeps other tenants from claiming a scope, a chat or a path. It does not decide who receives messages.
type Route struct {
	Platform relay.PlatformID `json:"platform"`
	Key      string           `json:"key"`
	Tenant   relay.TenantID   `json:"tenant"`
	Instance relay.InstanceID `json:"instanceId"`            // which declared it
	Gateway  string           `json:"gatewayName,omitempty"` // the name that the instance was given
	At       time.Time        `json:"at,omitzero"`
}

// Routes lists the routes an instance declared, or with an empty name all. Refused with NotFound.
func (s *chats) Routes(ctx context.Context, n Named) ([]Route, error) {
	of, err := s.maybe(ctx, n)
	if err != nil {
		return nil, err
	}
	all, err := s.db.Routes.List(ctx)
	all = slices.DeleteFunc(all, func(r store.Route) bool { return n.Name != "" && r.Instance != of.ID })
	return each(all, func(r store.Route) Route {
		return Route{Platform: r.Platform, Key: r.Key, Tenant: r.Tenant, Instance: r.Instance, Gateway: s.label(ctx, r.Instance), At: r.At.UTC()}
	}), err
}

// RouteKey names a route.
type RouteKey struct {
	Platform relay.PlatformID `json:"platform"`
	Key      string           `json:"key"`
}

// DropRoute frees the key that a route reserves, until its gateway starts again and declares it. Refused with NotFound.
func (s *chats) DropRoute(ctx context.Context, by audit.Actor, k RouteKey) (RouteKey, error) {
	err := s.db.Routes.Drop(ctx, &audit.Entry{Actor: by, Action: "route", Detail: "dropped " + string(k.Platform) + " " + k.Key}, k.Platform, k.Key)
	if errors.Is(err, store.ErrNotFound) {
		return RouteKey{}, refuse(NotFound, "that is not reserved").try("routes")
	}
	return k, err
}
