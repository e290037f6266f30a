package manage

import (
	"context"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Self is the description of an instance: what it holds, and what it lacks.
type Self struct {
	Instance  relay.InstanceID               `json:"instanceId"`
	Tenant    relay.TenantID                 `json:"tenant"`
	State     State                          `json:"state"`
	Gateways  []Gateway                      `json:"gateways"` // revoked ones are left out
	Bound     []BoundUser                    `json:"boundUsers"`
	Scopes    []Grant                        `json:"scopes"`
	Relevance map[relay.PlatformID]Relevance `json:"relevance"` // per hosted or declared platform
	WakeURL   bool                           `json:"wakeUrl"`   // one is registered
	Backlog   int                            `json:"backlog"`
	Dead      int                            `json:"dead"`
	Missing   []string                       `json:"missing"` // sentences about what keeps messages away
	Rules
}

// BoundUser is a person whose messages go to the instance.
type BoundUser struct {
	Platform  relay.PlatformID `json:"platform"`
	User      relay.UserID     `json:"userId"`
	DMDefault bool             `json:"dmDefault"`          // of the person's instances, the one chosen for direct messages
	Commands  []string         `json:"commands,omitempty"` // the only messages of the person that go to it; empty: all do
}

// Manageable refuses with NotFound unless i is an instance of tenant t (empty: any) that a gateway can serve.
func (s *gateways) Manageable(ctx context.Context, i relay.InstanceID, t relay.TenantID) error {
	inst, err := s.served(ctx, string(i))
	if err == nil && (inst.ID != i || t != "" && inst.Tenant != t) {
		return noGateway(string(i))
	}
	return err
}

// Self looks at one instance. Refused with NotFound.
func (s *gateways) Self(ctx context.Context, n Named) (Self, error) {
	i, err := s.served(ctx, n.Name)
	if err != nil {
		return Self{}, err
	}
	out := Self{
		Instance: i.ID, Tenant: i.Tenant, State: s.state(i), WakeURL: i.WakeURL != "",
		Rules: s.rules(i), Relevance: make(map[relay.PlatformID]Relevance),
		Gateways: []Gateway{},
	}
	gateways, err := s.Gateways(ctx, struct{}{})
	if err != nil {
		return Self{}, err
	}
	for _, g := range gateways {
		if g.Instance == i.ID && g.State != Revoked {
			out.Gateways = append(out.Gateways, g)
		}
	}
	bound, err := s.db.Bindings(ctx, store.BindingFilter{Instance: i.ID})
	if err != nil {
		return Self{}, err
	}
	out.Bound = each(bound, func(b store.Binding) BoundUser {
		return BoundUser{Platform: b.Platform, User: b.User, DMDefault: b.DMDefault, Commands: b.Commands}
	})
	if out.Scopes, err = s.grants(ctx, i.ID); err != nil {
		return Self{}, err
	}
	for p := range i.Relevance {
		out.Relevance[p] = shown(i, p)
	}
	for _, b := range s.bots() {
		p := b.ID().Platform
		out.Relevance[p] = shown(i, p)
	}
	lane, err := s.db.Lanes.State(ctx, i.ID)
	if err != nil {
		return Self{}, err
	}
	out.Backlog, out.Dead = lane.Entries, lane.Dead
	out.Missing = s.missing(i, out)
	return out, nil
}

// missing returns the reasons why messages do not arrive that the instance's people can change.
func (s *gateways) missing(i store.Instance, self Self) []string {
	out := []string{}
	if len(s.bots()) == 0 {
		out = append(out, "No bot is hosted here yet.")
	}
	if len(self.Bound) == 0 {
		out = append(out, "Nobody is linked: make a code with POST /manage/link and send it to the bot in a direct message.")
	}
	on := func(p relay.PlatformID) bool {
		return slices.ContainsFunc(self.Bound, func(b BoundUser) bool { return b.Platform == p })
	}
	var blind []relay.PlatformID
	for _, g := range self.Scopes {
		if !on(g.Platform) && !slices.Contains(blind, g.Platform) {
			blind = append(blind, g.Platform)
			out = append(out, fmt.Sprintf("Chats on %s belong to this gateway, but nobody linked to it on %s is a member of them, so none of their messages is delivered.", g.Platform, g.Platform))
		}
	}
	if i.Asleep && i.WakeURL == "" {
		out = append(out, "It sleeps and has no wake URL: messages wait until it comes back by itself.")
	}
	out = append(out, warnings(i)...)
	if self.Dead > 0 {
		out = append(out, fmt.Sprintf("Messages were given up (%d); whoever runs the connector can deliver them again.", self.Dead))
	}
	return out
}
