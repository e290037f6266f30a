package manage

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// EnrollByToken are the arguments of the operation by which a gateway enrolls itself.
type EnrollByToken struct {
	Token   relay.Secret
	Gateway relay.GatewayID // the name it asks for; it is ignored if the token names a gateway
	Tenant  relay.TenantID  // the tenant that the caller has proved; empty if it proved none
}

// EnrollByToken makes a gateway for the holder of an enrollment token, once. A bad token is refused with Forbidden. A
// bad name is refused with Usage or Exists, and then the token is still good.
func (s *newcomers) EnrollByToken(ctx context.Context, by audit.Actor, e EnrollByToken) (Enrolled, error) {
	mac := s.mac.MAC(EnrollmentPurpose, e.Token)
	t, err := s.db.Codes.Get(ctx, store.EnrollCode, mac)
	if err != nil {
		return Enrolled{}, whyNotRedeemed(err)
	}
	// The store checks this again when it marks the token as used. This check keeps the holder of a spent token from
	// learning which names are taken.
	if t.Used || !s.set.Now().Before(t.ExpiresAt) || e.Tenant != "" && e.Tenant != t.Tenant {
		return Enrolled{}, badToken()
	}
	id, inst := t.Gateway, t.Instance
	if id == "" {
		if err := checkName("gatewayId", "a gateway", string(e.Gateway)); err != nil {
			return Enrolled{}, err
		}
		id, inst = e.Gateway, relay.InstanceID(e.Gateway)
		// The operator did not allow this gateway to serve an agent that another gateway serves.
		live, err := s.liveGateways(ctx)
		if err != nil {
			return Enrolled{}, err
		}
		if live[inst] {
			return Enrolled{}, nameTaken()
		}
	}
	cred, g := s.auth.Issue(id)
	g.Instance, g.Tenant = inst, t.Tenant
	i := store.Instance{ID: inst, Tenant: e.Tenant, WakeURL: t.WakeURL, CreatedAt: g.CreatedAt}
	if err := s.db.Enroll(ctx, gatewayRow(by, "enroll", g, "by token"), g, i, mac); err != nil {
		return Enrolled{}, whyNotRedeemed(err)
	}
	return s.enrolled(g, t.WakeURL, cred.Secret, cred.DeliveryKey), nil
}

// whyNotRedeemed turns the store's error about a token into a refusal. The refusal does not tell why a token is bad.
func whyNotRedeemed(err error) error {
	for _, bad := range []error{store.ErrNotFound, store.ErrExpired, store.ErrUsed, store.ErrForeign} {
		if errors.Is(err, bad) {
			return badToken()
		}
	}
	if errors.Is(err, store.ErrExists) {
		return nameTaken()
	}
	return err
}

func badToken() error {
	return refuse(Forbidden, "the enrollment token is wrong, used, expired or for another gateway: ask for a new one")
}

func nameTaken() error {
	return refuse(Exists, "that name is taken: choose another gateway id")
}

// IdentityURL is the address at which a gateway fetches proof of who it is. It is a credential, valid until it is
// replaced or revoked.
type IdentityURL struct {
	URL      string           `json:"identityUrl"`
	Instance relay.InstanceID `json:"instanceId"`
	Tenant   relay.TenantID   `json:"tenant"`
}

// EnvLine renders u as a line of a .env file.
func (u IdentityURL) EnvLine() string { return envTokenURL + "=" + quoteEnv(u.URL) }

// Identity makes a new identity URL for an instance; the former one is no longer valid. Refused with NotFound, or with
// Usage when another service identifies the gateways.
func (s *gateways) Identity(ctx context.Context, by audit.Actor, n Named) (IdentityURL, error) {
	if !s.set.IdentityURLs {
		return IdentityURL{}, refuse(Usage, "identity URLs exist only with mode = \"none\" in [identity]: gateways prove themselves to another service here")
	}
	i, err := s.served(ctx, n.Name)
	if err != nil {
		return IdentityURL{}, err
	}
	url, err := s.identityURL(ctx, by, i.ID, i.Tenant, time.Time{})
	return IdentityURL{URL: url, Instance: i.ID, Tenant: i.Tenant}, err
}

// identityURL makes an identity code and returns the URL that contains the code. If expires is zero, the code does not
// expire.
func (s *gateways) identityURL(ctx context.Context, by audit.Actor, i relay.InstanceID, t relay.TenantID, expires time.Time) (string, error) {
	code := identity.NewCode()
	c := store.Code{Kind: store.IdentityCode, Tenant: t, Instance: i, CreatedAt: s.set.Now(), ExpiresAt: expires}
	made := row(by, "identity", store.Instance{ID: i, Tenant: t}, "new identity URL")
	if err := s.db.Codes.Put(ctx, made, identity.CodeMAC(s.mac, code), c); err != nil {
		return "", err
	}
	return s.set.URL + "/relay/identity/" + code, nil
}

// DropIdentity revokes an instance's identity URL; the gateway keeps the credentials it has. Refused with NotFound,
// also if there is no such URL.
func (s *gateways) DropIdentity(ctx context.Context, by audit.Actor, n Named) (Moved, error) {
	if n.Name == "" { // an empty name would match every code without an instance
		return Moved{}, noGateway(n.Name)
	}
	i, err := s.instance(ctx, n.Name)
	if refused, ok := errors.AsType[*Error](err); ok && refused.Why == NotFound {
		i = store.Instance{ID: relay.InstanceID(n.Name)} // enroll --token makes a code before its gateway exists
	} else if err != nil {
		return Moved{}, err
	}
	count, err := s.db.Codes.Drop(ctx, row(by, "identity", i, "identity URL revoked"), store.CodeFilter{Kind: store.IdentityCode, Instance: i.ID})
	if err == nil && count == 0 {
		return Moved{}, refuse(NotFound, "%q has no identity URL that could be revoked", n.Name)
	}
	return Moved{Instance: i.ID, Count: count}, err
}
