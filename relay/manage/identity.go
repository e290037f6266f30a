package manage

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/store"
)

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
func (s *Service) Identity(ctx context.Context, n Named) (IdentityURL, error) {
	if !s.set.IdentityURLs {
		return IdentityURL{}, refuse(Usage, nil, "identity URLs exist only with mode = \"none\" in [identity]: gateways prove themselves to another service here")
	}
	i, err := s.served(ctx, n.Name)
	if err != nil {
		return IdentityURL{}, err
	}
	url, err := s.identityURL(ctx, i.ID, i.Tenant, time.Time{})
	return IdentityURL{URL: url, Instance: i.ID, Tenant: i.Tenant}, err
}

// identityURL makes an identity code and returns where it is used. With a zero expiry it does not expire.
func (s *Service) identityURL(ctx context.Context, i relay.InstanceID, t relay.TenantID, expires time.Time) (string, error) {
	code := identity.NewCode()
	c := store.Code{Kind: store.IdentityCode, Tenant: t, Instance: i, CreatedAt: s.set.Now(), ExpiresAt: expires}
	ctx = audited(ctx, actIdentity, store.Instance{ID: i, Tenant: t}, "new identity URL")
	if err := s.db.Codes.Put(ctx, identity.CodeMAC(s.mac, code), c); err != nil {
		return "", err
	}
	return s.set.URL + "/relay/identity/" + code, nil
}

// DropIdentity revokes an instance's identity URL; the gateway goes on with the credentials it has. Refused with
// NotFound, also when there is none.
func (s *Service) DropIdentity(ctx context.Context, n Named) (Moved, error) {
	if n.Name == "" { // it would be that of every token without a name
		return Moved{}, noGateway(n.Name, nil)
	}
	i, err := s.instance(ctx, n.Name)
	if refused, ok := errors.AsType[*Error](err); ok && refused.Kind == NotFound {
		i = store.Instance{ID: relay.InstanceID(n.Name)} // enroll --token makes one for a gateway that never came
	} else if err != nil {
		return Moved{}, err
	}
	count, err := s.db.Codes.Drop(audited(ctx, actIdentity, i, "identity URL revoked"), store.CodeFilter{Kind: store.IdentityCode, Instance: i.ID})
	if err == nil && count == 0 {
		return Moved{}, refuse(NotFound, nil, "%q has no identity URL that could be revoked", n.Name)
	}
	return Moved{Instance: i.ID, Count: count}, err
}
