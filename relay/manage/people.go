package manage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Link is a code that binds whoever sends it to the bot.
type Link struct {
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expiresAt"`
	// DeepLinks open the bot with the code typed in, per platform; empty for platforms that have
	// none, or whose bot has not been reached yet.
	DeepLinks map[relay.PlatformID]string `json:"deepLinks"`
}

// Link mints a code for an instance, good for one person on any platform. Refused with NotFound.
func (s *Service) Link(ctx context.Context, n Named) (Link, error) {
	i, err := s.served(ctx, n.Name)
	if err != nil {
		return Link{}, err
	}
	code, expires, err := s.desk.Mint(ctx, i.ID, "")
	if err != nil {
		return Link{}, err
	}
	l := Link{Code: code, ExpiresAt: expires.UTC(), DeepLinks: make(map[relay.PlatformID]string)}
	for _, p := range s.bots() {
		linker, ok := p.(platforms.DeepLinker)
		if _, done := l.DeepLinks[p.Bot().Platform]; done || !ok {
			continue
		}
		if url, ok := linker.DeepLink(code); ok {
			l.DeepLinks[p.Bot().Platform] = url
		}
	}
	return l, nil
}

// Bind names a person and the instance their messages go to.
type Bind struct {
	Name     string           `json:"name"`
	Platform relay.PlatformID `json:"platform"`
	User     relay.UserID     `json:"userId"`
}

// Binding says that a person's messages go to an instance.
type Binding struct {
	Platform relay.PlatformID `json:"platform"`
	User     relay.UserID     `json:"userId"`
	Instance relay.InstanceID `json:"instanceId"`
}

// Bind binds a person to an instance, as a link code would. Again: nothing changes. Refused with
// NotFound or Usage.
func (s *Service) Bind(ctx context.Context, b Bind) (Binding, error) {
	if err := s.person(b.Platform, b.User); err != nil {
		return Binding{}, err
	}
	i, err := s.served(ctx, b.Name)
	if err != nil {
		return Binding{}, err
	}
	out := Binding{Platform: b.Platform, User: b.User, Instance: i.ID}
	return out, s.db.Bind(ctx, store.Binding{
		Tenant: i.Tenant, Platform: b.Platform, User: b.User, Instance: i.ID, BoundAt: s.set.Now(),
	})
}

// Unbind undoes Bind. Refused with NotFound, also when the person was not bound.
func (s *Service) Unbind(ctx context.Context, b Bind) (Binding, error) {
	i, err := s.instance(ctx, b.Name)
	if err != nil {
		return Binding{}, err
	}
	out := Binding{Platform: b.Platform, User: b.User, Instance: i.ID}
	err = s.db.Unbind(ctx, i.ID, b.Platform, b.User)
	if errors.Is(err, store.ErrNotFound) {
		return out, refuse(NotFound, err, "%s user %s is not bound to %q: nothing to undo", b.Platform, b.User, b.Name)
	}
	return out, err
}

// SetPrincipal says who may speak inside an instance's granted chats, besides its owners.
type SetPrincipal struct {
	Name   string                `json:"name"`
	Policy store.PrincipalPolicy `json:"policy"`
	Allow  []store.Person        `json:"allow,omitempty"` // for allow-list: the whole list
}

// Principal is what SetPrincipal left behind.
type Principal struct {
	Instance relay.InstanceID      `json:"instanceId"`
	Policy   store.PrincipalPolicy `json:"policy"`
	Allow    []store.Person        `json:"allow"`
}

// SetPrincipal replaces an instance's principal policy. Refused with NotFound or Usage.
func (s *Service) SetPrincipal(ctx context.Context, p SetPrincipal) (Principal, error) {
	switch p.Policy {
	case store.OwnerOnly, store.AnyOne:
		if len(p.Allow) > 0 {
			return Principal{}, refuse(Usage, nil, "a list of people goes with %s only, not with %s", store.AllowList, p.Policy)
		}
	case store.AllowList:
		if len(p.Allow) == 0 {
			return Principal{}, refuse(Usage, nil, "%s needs somebody to allow: --allow PLATFORM:USER", store.AllowList)
		}
	default:
		return Principal{}, refuse(Usage, nil, "unknown policy %q: want %s, %s or %s", p.Policy, store.OwnerOnly, store.AllowList, store.AnyOne)
	}
	for _, a := range p.Allow {
		if err := s.person(a.Platform, a.User); err != nil {
			return Principal{}, err
		}
	}
	i, err := s.served(ctx, p.Name)
	if err != nil {
		return Principal{}, err
	}
	out := Principal{Instance: i.ID, Policy: p.Policy, Allow: append([]store.Person{}, p.Allow...)}
	return out, s.db.UpdateInstance(ctx, i.ID, func(i *store.Instance) error {
		i.Principal = store.Principal{Policy: p.Policy, Allow: slices.Clone(p.Allow)}
		return nil
	})
}

// SetRelevance says when to bother an instance's agent on a platform. Nil fields stay as they are.
type SetRelevance struct {
	Name             string           `json:"name"`
	Platform         relay.PlatformID `json:"platform"`
	RequireAddress   *bool            `json:"requireAddress,omitempty"`
	Free             *[]relay.ChatID  `json:"freeResponseScopes,omitempty"`
	AllowBots        *bool            `json:"allowOtherBots,omitempty"`
	OwnerMustAddress *bool            `json:"ownerMustAddress,omitempty"`
}

// Relevance is the relevance policy of an instance on a platform.
type Relevance struct {
	Instance         relay.InstanceID `json:"instanceId"`
	Platform         relay.PlatformID `json:"platform"`
	RequireAddress   bool             `json:"requireAddress"`
	Free             []relay.ChatID   `json:"freeResponseScopes"`
	AllowBots        bool             `json:"allowOtherBots"`
	OwnerMustAddress bool             `json:"ownerMustAddress"`
}

// SetRelevance changes what is given and returns the policy as it then stands. With nothing
// given it only looks. Refused with NotFound or Usage.
func (s *Service) SetRelevance(ctx context.Context, p SetRelevance) (Relevance, error) {
	if err := s.platform(p.Platform); err != nil {
		return Relevance{}, err
	}
	if p.Free != nil {
		for _, c := range *p.Free {
			if err := checkID("chat", string(c)); err != nil {
				return Relevance{}, err
			}
		}
	}
	i, err := s.served(ctx, p.Name)
	if err != nil {
		return Relevance{}, err
	}
	r := relevance(i, p.Platform)
	if p.RequireAddress != nil || p.Free != nil || p.AllowBots != nil || p.OwnerMustAddress != nil {
		err = s.db.UpdateInstance(ctx, i.ID, func(i *store.Instance) error {
			r = relevance(*i, p.Platform)
			change(&r.RequireAddress, p.RequireAddress)
			change(&r.FreeResponseScopes, p.Free)
			change(&r.AllowOtherBots, p.AllowBots)
			change(&r.OwnerMustAddress, p.OwnerMustAddress)
			if i.Relevance == nil {
				i.Relevance = make(map[relay.PlatformID]store.Relevance)
			}
			i.Relevance[p.Platform] = r
			return nil
		})
	}
	return Relevance{
		Instance: i.ID, Platform: p.Platform, RequireAddress: r.RequireAddress,
		Free:      append([]relay.ChatID{}, r.FreeResponseScopes...),
		AllowBots: r.AllowOtherBots, OwnerMustAddress: r.OwnerMustAddress,
	}, err
}

// relevance is the declared policy, or what holds without one: bots off, address required.
func relevance(i store.Instance, p relay.PlatformID) store.Relevance {
	if r, ok := i.Relevance[p]; ok {
		return r
	}
	return store.Relevance{RequireAddress: true}
}

func change[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}
