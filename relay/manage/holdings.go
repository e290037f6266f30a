package manage

import (
	"context"
	"errors"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/store"
)

// Holdings are what an instance was given, and what it declared.
type Holdings struct {
	People   []Binding         `json:"people"`
	Grants   []Grant           `json:"grants"`
	Policies []Relevance       `json:"policies"` // those that were set, by platform
	Identity bool              `json:"identityUrl"`
	WakeURL  string            `json:"wakeUrl,omitempty"`
	Poke     *wake.Poke        `json:"poke,omitempty"` // the result of the newest wake poke; nil: none since the start
	Waiting  int               `json:"waiting"`        // entries not acknowledged
	Gateways []relay.GatewayID `json:"gateways"`       // that serve it too, revoked ones left out
	Rules
}

// holdings returns what the instance of a gateway has.
func (s *gateways) holdings(ctx context.Context, g store.Gateway) (*Holdings, error) {
	i, err := store.Only(s.db.Instances(ctx, g.Instance))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := &Holdings{Rules: s.rules(i), Policies: []Relevance{}, WakeURL: i.WakeURL, Gateways: []relay.GatewayID{}}
	for _, p := range s.set.Networks {
		if _, set := i.Relevance[p.Name]; set {
			h.Policies = append(h.Policies, shown(i, p.Name))
		}
	}
	if s.set.Poke != nil && i.WakeURL != "" {
		h.Poke = s.set.Poke(i.ID)
	}
	bound, err := s.db.Bindings(ctx, store.BindingFilter{Instance: i.ID})
	if err != nil {
		return nil, err
	}
	h.People = each(bound, binding)
	for n, b := range bound {
		if h.People[n].DirectTo, err = link.DirectTo(ctx, s.db, store.Person{Platform: b.Platform, User: b.User}); err != nil {
			return nil, err
		}
		if err := s.name(ctx, &h.People[n]); err != nil {
			return nil, err
		}
	}
	if h.Grants, err = s.grants(ctx, i.ID); err != nil {
		return nil, err
	}
	if h.Identity, err = s.db.Codes.Identity(ctx, i.ID); err != nil {
		return nil, err
	}
	lane, err := s.db.Lanes.State(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	h.Waiting = lane.Entries
	all, err := s.db.Gateways(ctx)
	for _, other := range all {
		if other.Instance == i.ID && other.ID != g.ID && !other.Revoked {
			h.Gateways = append(h.Gateways, other.ID)
		}
	}
	return h, err
}

func binding(b store.Binding) Binding {
	return Binding{Platform: b.Platform, User: b.User, Instance: b.Instance, Tenant: b.Tenant, BoundAt: b.BoundAt.UTC(), Commands: b.Commands, DMDefault: b.DMDefault}
}
