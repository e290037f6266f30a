package manage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/store"
)

// Holdings are what an instance was given, and what it said of itself.
type Holdings struct {
	People    []Bound           `json:"people"`
	Grants    []Grant           `json:"grants"`
	Principal Principal         `json:"principal"`
	Policies  []Relevance       `json:"policies"` // those that were set, by platform
	Identity  bool              `json:"identityUrl"`
	WakeURL   string            `json:"wakeUrl,omitempty"`
	Poke      *wake.Poke        `json:"poke,omitempty"` // how the newest wake poke went; nil: none since the start
	Waiting   int               `json:"waiting"`        // entries not acknowledged
	OldestAt  time.Time         `json:"oldestAt,omitzero"`
	Dead      int               `json:"dead"`     // dead letters
	Gateways  []relay.GatewayID `json:"gateways"` // that serve it too, revoked ones left out
}

// Bound is a person whose messages go to an instance.
type Bound struct {
	Platform  relay.PlatformID `json:"platform"`
	User      relay.UserID     `json:"userId"`
	Instance  relay.InstanceID `json:"instanceId"`
	Tenant    relay.TenantID   `json:"tenant"`
	BoundAt   time.Time        `json:"boundAt,omitzero"`
	DMDefault bool             `json:"dmDefault,omitempty"` // of several instances of the person, it gets the direct messages
}

// People lists who is bound to an instance, or with an empty name to any. Refused with NotFound.
func (s *Service) People(ctx context.Context, n Named) ([]Bound, error) {
	of, err := s.maybe(ctx, n)
	if err != nil {
		return nil, err
	}
	return s.people(ctx, of.ID)
}

func (s *Service) people(ctx context.Context, i relay.InstanceID) ([]Bound, error) {
	all, err := s.db.Bindings(ctx, store.BindingFilter{Instance: i})
	return each(all, func(b store.Binding) Bound {
		return Bound{
			Platform: b.Platform, User: b.User, Instance: b.Instance, Tenant: b.Tenant,
			BoundAt: b.BoundAt.UTC(), DMDefault: b.DMDefault,
		}
	}), err
}

// PrincipalOf is who may speak inside an instance's granted chats. Refused with NotFound.
func (s *Service) PrincipalOf(ctx context.Context, n Named) (Principal, error) {
	i, err := s.instance(ctx, n.Name)
	return principal(i), err
}

// holdings are what the instance of a gateway has.
func (s *Service) holdings(ctx context.Context, g store.Gateway) (*Holdings, error) {
	i, err := store.Only(s.db.Instances(ctx, g.Instance))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := &Holdings{Principal: principal(i), Policies: []Relevance{}, WakeURL: i.WakeURL, Gateways: []relay.GatewayID{}}
	for _, p := range slices.Sorted(maps.Keys(i.Relevance)) {
		h.Policies = append(h.Policies, shown(i, p))
	}
	if s.set.Poke != nil && i.WakeURL != "" {
		h.Poke = s.set.Poke(i.ID)
	}
	if h.People, err = s.people(ctx, i.ID); err != nil {
		return nil, err
	}
	grants, err := s.db.Grants(ctx, store.GrantFilter{Instance: i.ID})
	if err != nil {
		return nil, err
	}
	h.Grants = each(grants, grant)
	codes, err := s.db.Codes.Count(ctx, store.CodeFilter{Kind: store.IdentityCode, Instance: i.ID})
	if err != nil {
		return nil, err
	}
	h.Identity = codes > 0
	lane, err := s.db.Lanes.State(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	h.Waiting, h.OldestAt, h.Dead = lane.Entries, lane.OldestAt.UTC(), lane.Dead
	all, err := s.db.Gateways(ctx)
	for _, other := range all {
		if other.Instance == i.ID && other.ID != g.ID && !other.Revoked {
			h.Gateways = append(h.Gateways, other.ID)
		}
	}
	return h, err
}

// botless are warnings for the networks among these that no configured bot is on: what was said about them has no
// effect yet.
func (s *Service) botless(networks ...relay.PlatformID) (warnings []string) {
	slices.Sort(networks)
	for _, n := range slices.Compact(networks) {
		if !slices.ContainsFunc(s.bots(), func(p platforms.Platform) bool { return p.Bot().Platform == n }) {
			warnings = append(warnings, "No "+strings.ReplaceAll(string(n), "_", " ")+" bot is configured, so nothing comes from there yet.")
		}
	}
	return warnings
}
