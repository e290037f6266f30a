package manage

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// State is the state of an instance, or of the gateway that serves it.
type State string

// The states of instances and gateways.
const (
	Connected State = "connected" // a session serves it
	Asleep    State = "asleep"    // it said that it goes idle: healthy
	Away      State = "away"      // it vanished, or never came
	Revoked   State = "revoked"   // gateways only: the credentials are dead
)

// Gateway is a gateway as an operator sees it.
type Gateway struct {
	ID         relay.GatewayID  `json:"gatewayId"`
	Instance   relay.InstanceID `json:"instanceId"`
	Tenant     relay.TenantID   `json:"tenant"`
	Name       string           `json:"name,omitempty"` // the name that its instance was given
	State      State            `json:"state"`
	CreatedAt  time.Time        `json:"createdAt"`
	LastSeenAt time.Time        `json:"lastSeenAt,omitzero"`
	Secrets    int              `json:"secrets"`            // how many are valid: two while a rotation is under way
	Warnings   []string         `json:"warnings,omitempty"` // the warnings in its instance's status
	// Holds is what its instance has; nil in a list, and if the instance no longer exists.
	Holds *Holdings `json:"holds,omitempty"`
}

// Gateways lists all gateways by name, revoked ones included.
func (s *gateways) Gateways(ctx context.Context, _ struct{}) ([]Gateway, error) {
	all, err := s.db.Gateways(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Gateway, len(all))
	for i, g := range all {
		if out[i], err = s.show(ctx, g); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Gateway returns one of Gateways, with what its instance holds. An instance's name stands for its only gateway, here
// and wherever a gateway is named. Refused with NotFound.
func (s *gateways) Gateway(ctx context.Context, n Named) (Gateway, error) {
	g, err := s.gateway(ctx, n.Name)
	if err != nil {
		return Gateway{}, err
	}
	out, err := s.show(ctx, g)
	if err != nil {
		return Gateway{}, err
	}
	out.Holds, err = s.holdings(ctx, g)
	return out, err
}

func (s *gateways) show(ctx context.Context, g store.Gateway) (Gateway, error) {
	i, err := store.Only(s.db.Instances(ctx, g.Instance))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Gateway{}, err
	}
	out := Gateway{
		ID: g.ID, Instance: g.Instance, Tenant: g.Tenant, Name: i.Label, State: s.state(i),
		CreatedAt: g.CreatedAt.UTC(), LastSeenAt: g.LastSeenAt.UTC(), Warnings: warnings(i),
	}
	switch {
	case g.Revoked:
		out.State = Revoked
		return out, nil
	case out.State == Connected && !s.live.Serves(g.ID, g.Instance): // another gateway of the instance is connected
		out.State = Away
	}
	now := s.set.Now()
	for _, sec := range g.Secrets {
		if sec.ExpiresAt.IsZero() || sec.ExpiresAt.After(now) {
			out.Secrets++
		}
	}
	return out, nil
}

// Rotate gives a gateway a new secret. The old one works until the gateway has connected with the new one, or for a
// day. Refused with NotFound.
func (s *gateways) Rotate(ctx context.Context, by audit.Actor, n Named) (Enrolled, error) {
	g, err := s.gateway(ctx, n.Name)
	if err != nil {
		return Enrolled{}, err
	}
	made, err := s.auth.Rotate(ctx, gatewayRow(by, "rotate", g, ""), g.ID)
	if errors.Is(err, token.ErrRevoked) {
		return Enrolled{}, revoked(n.Name)
	}
	if err != nil {
		return Enrolled{}, err
	}
	key, err := s.auth.DeliveryKey(ctx, g.ID)
	if err != nil {
		return Enrolled{}, err
	}
	i, err := store.Only(s.db.Instances(ctx, g.Instance))
	if err != nil {
		return Enrolled{}, err
	}
	out := s.enrolled(g, i.WakeURL, made.Secret, key)
	out.OldUntil = made.OldUntil.UTC()
	return out, nil
}

func revoked(name string) error {
	return refuse(NotFound, "the credentials of %q are revoked", name).try("enroll", name)
}

// Revoke makes a gateway's credentials invalid; its session is closed at once. If it was the last gateway of its
// instance, the instance's bindings and grants are deleted, and the messages in its buffer become dead letters. Refused
// with NotFound.
func (s *gateways) Revoke(ctx context.Context, by audit.Actor, n Named) (Gateway, error) {
	g, err := s.gateway(ctx, n.Name)
	if err != nil {
		return Gateway{}, err
	}
	if _, err := s.db.Revoke(ctx, gatewayRow(by, "revoke", g, ""), g.Instance, g.ID); err != nil {
		return Gateway{}, err
	}
	s.bus.Publish(bus.Revoked{Gateway: g.ID})
	g.Revoked = true
	return s.show(ctx, g)
}

// Deprovisioned says which gateways an instance lost.
type Deprovisioned struct {
	Instance relay.InstanceID  `json:"instanceId"`
	Tenant   relay.TenantID    `json:"tenant"`
	Gateways []relay.GatewayID `json:"gateways"` // those that were not revoked before
}

// Deprovision is Revoke for every gateway of an instance at once. Called again, it changes nothing. Refused with
// NotFound.
func (s *gateways) Deprovision(ctx context.Context, by audit.Actor, n Named) (Deprovisioned, error) {
	i, err := s.instance(ctx, n.Name)
	if err != nil {
		return Deprovisioned{}, err
	}
	gone, err := s.db.Revoke(ctx, row(by, "deprovision", i, ""), i.ID)
	if err != nil {
		return Deprovisioned{}, err
	}
	for _, g := range gone {
		s.bus.Publish(bus.Revoked{Gateway: g})
	}
	return Deprovisioned{Instance: i.ID, Tenant: i.Tenant, Gateways: append([]relay.GatewayID{}, gone...)}, nil
}
