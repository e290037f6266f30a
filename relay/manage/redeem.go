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

// EnrollByToken is a gateway that enrolls itself.
type EnrollByToken struct {
	Token   relay.Secret
	Gateway relay.GatewayID // what it wants to be called; a token that names a gateway decides
	Tenant  relay.TenantID  // whose the caller has proved to be; empty when it proved nothing
}

// EnrollByToken makes a gateway for whoever holds an enrollment token, once. Refused with Forbidden because of
// the token, and with Usage or Exists because of the gateway's name; then the token is still good.
func (s *newcomers) EnrollByToken(ctx context.Context, by audit.Actor, e EnrollByToken) (Enrolled, error) {
	mac := s.mac.MAC(EnrollmentPurpose, e.Token)
	t, err := s.db.Codes.Get(ctx, store.EnrollCode, mac)
	if err != nil {
		return Enrolled{}, whyNotRedeemed(err)
	}
	// The store checks this again when it marks the token. The check here keeps whoever holds a spent
	// token from learning which names are taken.
	if t.Used || !s.set.Now().Before(t.ExpiresAt) || e.Tenant != "" && e.Tenant != t.Tenant {
		return Enrolled{}, badToken()
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

// whyNotRedeemed sorts the store's answers about a token. badToken does not tell why the token is refused.
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

// IdentityURL is where a gateway fetches proof of who it is. It is a credential, good until replaced or revoked.
type IdentityURL struct {
	URL      string           `json:"identityUrl"`
	Instance relay.InstanceID `json:"instanceId"`
	Tenant   relay.TenantID   `json:"tenant"`
}

// EnvLine renders it as a line of a .env file.
func (u IdentityURL) EnvLine() string { return envTokenURL + "=" + quoteEnv(u.URL) }

// Identity makes a new identity URL for an instance; its former one dies. Refused with NotFound,
// or with Usage when the connector takes others' word for who a gateway is.
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

// identityURL makes an identity code and returns where it is used. With a zero expiry it does not expire.
func (s *gateways) identityURL(ctx context.Context, by audit.Actor, i relay.InstanceID, t relay.TenantID, expires time.Time) (string, error) {
	code := identity.NewCode()
	c := store.Code{Kind: store.IdentityCode, Tenant: t, Instance: i, CreatedAt: s.set.Now(), ExpiresAt: expires}
	made := row(by, "identity", store.Instance{ID: i, Tenant: t}, "new identity URL")
	if err := s.db.Codes.Put(ctx, made, identity.CodeMAC(s.mac, code), c); err != nil {
		return "", err
	}
	return s.set.URL + "/relay/identity/" + code, nil
}

// DropIdentity revokes an instance's identity URL; the gateway goes on with the credentials it has. Refused with
// NotFound, also when there is none.
func (s *gateways) DropIdentity(ctx context.Context, by audit.Actor, n Named) (Moved, error) {
	if n.Name == "" { // it would be that of every token without a name
		return Moved{}, noGateway(n.Name)
	}
	i, err := s.instance(ctx, n.Name)
	if refused, ok := errors.AsType[*Error](err); ok && refused.Why == NotFound {
		i = store.Instance{ID: relay.InstanceID(n.Name)} // enroll --token makes one for a gateway that never came
	} else if err != nil {
		return Moved{}, err
	}
	count, err := s.db.Codes.Drop(ctx, row(by, "identity", i, "identity URL revoked"), store.CodeFilter{Kind: store.IdentityCode, Instance: i.ID})
	if err == nil && count == 0 {
		return Moved{}, refuse(NotFound, "%q has no identity URL that could be revoked", n.Name)
	}
	return Moved{Instance: i.ID, Count: count}, err
}
