package manage

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

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
}

// Claim grants a chat or a whole scope to an instance. The operator may grant anything that
// nobody else holds. Again: nothing changes. Refused with NotFound, Usage or Held.
func (s *Service) Claim(ctx context.Context, c Scope) (Grant, error) {
	if err := s.scope(c); err != nil {
		return Grant{}, err
	}
	i, err := s.served(ctx, c.Name)
	if err != nil {
		return Grant{}, err
	}
	g := store.Grant{Platform: c.Platform, Scope: c.Scope, Chat: c.Chat, Instance: i.ID, Tenant: i.Tenant, GrantedAt: s.set.Now()}
	err = s.db.Claim(ctx, g)
	if errors.Is(err, store.ErrHeld) {
		return Grant{}, refuse(Held, err, "another gateway holds that chat: hermes-connector scope list shows which; release it there first")
	}
	return grant(g), err
}

// Release undoes Claim. Refused with NotFound, also when the instance holds no such grant.
func (s *Service) Release(ctx context.Context, c Scope) (Grant, error) {
	if err := s.scope(c); err != nil {
		return Grant{}, err
	}
	i, err := s.instance(ctx, c.Name)
	if err != nil {
		return Grant{}, err
	}
	err = s.db.Release(ctx, i.ID, c.Platform, c.Scope, c.Chat)
	if errors.Is(err, store.ErrNotFound) {
		return Grant{}, refuse(NotFound, err, "%q does not hold that chat: hermes-connector scope list %s shows what it holds", c.Name, c.Name)
	}
	return grant(store.Grant{Platform: c.Platform, Scope: c.Scope, Chat: c.Chat, Instance: i.ID, Tenant: i.Tenant}), err
}

func (s *Service) scope(c Scope) error {
	if err := s.platform(c.Platform); err != nil {
		return err
	}
	if c.Scope != "" {
		if err := checkID("scope", string(c.Scope)); err != nil {
			return err
		}
		if c.Chat == "" {
			return nil
		}
	}
	return checkID("chat", string(c.Chat))
}

// Scopes lists the grants of an instance, or with an empty name all of them. Refused with NotFound.
func (s *Service) Scopes(ctx context.Context, n Named) ([]Grant, error) {
	var all []store.Grant
	var err error
	if n.Name == "" {
		all, err = s.db.Grants(ctx)
	} else {
		var i store.Instance
		if i, err = s.instance(ctx, n.Name); err == nil {
			all, err = s.db.GrantsTo(ctx, i.ID)
		}
	}
	out := make([]Grant, 0, len(all))
	for _, g := range all {
		out = append(out, grant(g))
	}
	return out, err
}

func grant(g store.Grant) Grant {
	return Grant{Platform: g.Platform, Scope: g.Scope, Chat: g.Chat, Instance: g.Instance, Tenant: g.Tenant, GrantedAt: utc(g.GrantedAt)}
}
