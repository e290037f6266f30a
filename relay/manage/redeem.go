package manage

import (
	"context"
	"errors"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// EnrollByToken is a gateway that enrolls itself.
type EnrollByToken struct {
	Token   relay.Secret
	Gateway relay.GatewayID // what it wants to be called; a token that names a gateway decides
	Tenant  relay.TenantID  // whose the caller has proved to be; empty when it proved nothing
}

// EnrollByToken makes a gateway for whoever holds an enrollment token, once. Refused with Forbidden because of
// the token, and with Usage or Exists because of the gateway's name; then the token is still good.
func (s *Service) EnrollByToken(ctx context.Context, e EnrollByToken) (Enrolled, error) {
	mac := s.mac.MAC(enrollmentPurpose, e.Token)
	t, err := s.db.Code(ctx, store.EnrollCode, mac)
	if err != nil {
		return Enrolled{}, whyNotRedeemed(err)
	}
	// The store checks this again when it marks the token. The check here keeps whoever holds a spent
	// token from learning which names are taken.
	switch {
	case t.Used:
		return Enrolled{}, whyNotRedeemed(store.ErrUsed)
	case !s.set.Now().Before(t.ExpiresAt):
		return Enrolled{}, whyNotRedeemed(store.ErrExpired)
	case e.Tenant != "" && e.Tenant != t.Tenant:
		return Enrolled{}, whyNotRedeemed(store.ErrForeign)
	}
	id, inst := t.Gateway, t.Instance
	if id == "" {
		if err := checkName("gatewayId", "a gateway", string(e.Gateway)); err != nil {
			return Enrolled{}, err
		}
		id, inst = e.Gateway, relay.InstanceID(e.Gateway)
		// The operator did not say that this gateway may serve an agent that others serve.
		live, err := s.liveGateways(ctx)
		if err != nil {
			return Enrolled{}, err
		}
		if live[inst] {
			return Enrolled{}, nameTaken(nil)
		}
	}
	cred, g := s.auth.Issue(id)
	g.Instance, g.Tenant = inst, t.Tenant
	i := store.Instance{ID: inst, Tenant: t.Tenant, WakeURL: t.WakeURL, CreatedAt: g.CreatedAt}
	if err := s.db.EnrollByToken(auditedGateway(ctx, actEnroll, g, "by token"), mac, e.Tenant, g, i); err != nil {
		return Enrolled{}, whyNotRedeemed(err)
	}
	return s.enrolled(g, t.WakeURL, cred.Secret, cred.DeliveryKey), nil
}

// whyNotRedeemed sorts the store's answers about a token. The refusal does not tell why the token is refused.
func whyNotRedeemed(err error) error {
	for _, bad := range []error{store.ErrNotFound, store.ErrExpired, store.ErrUsed, store.ErrForeign} {
		if errors.Is(err, bad) {
			return refuse(Forbidden, err, "the enrollment token is wrong, used, expired or for somebody else: ask for a new one")
		}
	}
	if errors.Is(err, store.ErrExists) {
		return nameTaken(err)
	}
	return err
}

func nameTaken(err error) error {
	return refuse(Exists, err, "that name is taken: choose another gateway id")
}
