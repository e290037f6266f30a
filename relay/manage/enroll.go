package manage

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// gateways manages credentials, and the instances that they serve.
type gateways struct {
	directory
	*surroundings
	auth *token.Authority
	mac  relay.MACer
	bus  bus.Bus
}

// Enroll asks for credentials of a new gateway.
type Enroll struct {
	Name    string `json:"name"`              // gateway and instance id
	Tenant  string `json:"tenant,omitempty"`  // empty means relay.DefaultTenant
	WakeURL string `json:"wakeUrl,omitempty"` // the URL to GET when messages wait and the gateway is away
}

// Enrolled holds a gateway's credentials in the clear. Write it to the operator and nowhere else.
type Enrolled struct {
	Gateway     relay.GatewayID   `json:"gatewayId"`
	Instance    relay.InstanceID  `json:"instanceId"`
	Tenant      relay.TenantID    `json:"tenant"`
	Secret      string            `json:"secret"`
	DeliveryKey string            `json:"deliveryKey"`
	URL         string            `json:"url"`
	Env         map[string]string `json:"env,omitempty"` // what a gateway of any version reads; empty in an answer to a gateway
	// OldUntil is when the former secret ends; it ends earlier when the gateway dials with the new one. Zero: there is
	// none.
	OldUntil time.Time `json:"oldSecretUntil,omitzero"`
}

// Enroll makes a gateway with its instance, and in a new tenant the tenant. Refused with Exists
// when the name is taken by a gateway that is not revoked, with Usage when an argument is unfit.
func (s *gateways) Enroll(ctx context.Context, by audit.Actor, e Enroll) (Enrolled, error) {
	if err := s.checkEnroll(&e, false); err != nil {
		return Enrolled{}, err
	}
	cred, g := s.auth.Issue(relay.GatewayID(e.Name))
	g.Instance, g.Tenant = relay.InstanceID(e.Name), relay.TenantID(e.Tenant)
	i := store.Instance{ID: g.Instance, Tenant: g.Tenant, WakeURL: e.WakeURL, CreatedAt: g.CreatedAt}
	if err := s.db.Enroll(ctx, row(by, "enroll", i, ""), g, i); err != nil {
		if errors.Is(err, store.ErrExists) {
			err = cmp.Or(s.enrollable(ctx, e), err)
		}
		return Enrolled{}, err
	}
	return s.enrolled(g, e.WakeURL, cred.Secret, cred.DeliveryKey), nil
}

// checkEnroll refuses invalid arguments, and fills in the default tenant.
func (s *gateways) checkEnroll(e *Enroll, mayLackName bool) error {
	e.Tenant = cmp.Or(e.Tenant, string(relay.DefaultTenant))
	err := cmp.Or(checkName("tenant", "a tenant", e.Tenant), s.checkWakeURL(e.WakeURL))
	if e.Name != "" || !mayLackName {
		err = cmp.Or(checkName("gatewayId", "a gateway", e.Name), err)
	}
	return err
}

func checkName(field, what, name string) error {
	if err := relay.CheckName(name); err != nil {
		return unfit(field, "%q cannot name %s: %v", name, what, err)
	}
	return nil
}

const maxWakeURL = 2048 // bytes

// checkWakeURL checks a wake URL as far as possible now; relay/guard checks the resolved address before every poke. The
// error is a *Error that does not quote the URL.
func (s *gateways) checkWakeURL(raw string) error {
	if raw == "" {
		return nil
	}
	if len(raw) > maxWakeURL {
		return unfit("wakeUrl", "the wake URL is longer than %d bytes", maxWakeURL)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return unfit("wakeUrl", "the wake URL must be http:// or https:// with a host and without a user or password")
	}
	if s.set.CheckWake != nil {
		err = s.set.CheckWake(raw)
	}
	if err != nil {
		return unfit("wakeUrl", "this wake URL is not allowed: %v", err)
	}
	return nil
}

func (s *gateways) enrolled(g store.Gateway, wakeURL string, secret, deliveryKey relay.Secret) Enrolled {
	e := Enrolled{Gateway: g.ID, Instance: g.Instance, Tenant: g.Tenant, URL: s.set.URL}
	e.Secret, e.DeliveryKey = secret.RevealString(), deliveryKey.RevealString()
	e.Env = s.env(wakeURL)
	e.Env[envID], e.Env[envSecret], e.Env[envDeliveryKey] = string(e.Gateway), e.Secret, e.DeliveryKey
	// Gateways of June 2026 check users themselves, and would refuse everybody whose messages come from the connector.
	// Newer ones trust the connector and do not check.
	e.Env[EnvAllowAll] = "true"
	return e
}

// tokenAge is how long an enrollment token can be used.
const tokenAge = 15 * time.Minute

// The purposes name the keys of the MACs: EnrollmentPurpose of the tokens, GatewayPurpose of the variations of gateway ids.
const (
	EnrollmentPurpose = "enrollment"
	GatewayPurpose    = "gateway-id"
)

// EnrollmentToken lets a gateway enroll itself once.
type EnrollmentToken struct {
	Token     string          `json:"enrollmentToken"` // more than 256 random bits, made to be handed over
	ExpiresAt time.Time       `json:"expiresAt"`
	Tenant    relay.TenantID  `json:"tenant"`
	Gateway   relay.GatewayID `json:"gatewayId,omitempty"` // empty: the gateway chooses its name
	// IdentityURL is where a gateway of August 2026 or newer fetches the proof of its identity. If the token names a
	// gateway, the URL outlives the token. It is empty if another service identifies the gateways.
	IdentityURL string `json:"identityUrl,omitempty"`
	// Env is what such a gateway reads from its .env; it is empty if IdentityURL is.
	Env map[string]string `json:"env,omitempty"`
}

// EnrollToken makes a token with which a gateway can enroll itself within 15 minutes, and its identity URL;
// of both only the MAC is stored. The name may be empty. Refusals are those of Enroll.
func (s *gateways) EnrollToken(ctx context.Context, by audit.Actor, e Enroll) (EnrollmentToken, error) {
	if err := s.checkEnroll(&e, true); err != nil {
		return EnrollmentToken{}, err
	}
	if err := s.enrollable(ctx, e); err != nil {
		return EnrollmentToken{}, err
	}
	t := EnrollmentToken{
		Token:     relay.RandomText(relay.TokenLen),
		ExpiresAt: s.set.Now().Add(tokenAge).UTC().Truncate(time.Second),
		Tenant:    relay.TenantID(e.Tenant),
		Gateway:   relay.GatewayID(e.Name),
	}
	stored := store.Code{
		Kind:   store.EnrollCode,
		Tenant: t.Tenant, Gateway: t.Gateway, Instance: relay.InstanceID(e.Name), WakeURL: e.WakeURL,
		CreatedAt: s.set.Now(), ExpiresAt: t.ExpiresAt,
	}
	g := store.Gateway{ID: stored.Gateway, Instance: stored.Instance, Tenant: stored.Tenant}
	mac := s.mac.MAC(EnrollmentPurpose, relay.NewSecret([]byte(t.Token)))
	if err := s.db.Codes.Put(ctx, gatewayRow(by, "enroll-token", g, ""), mac, stored); err != nil {
		return EnrollmentToken{}, err
	}
	if !s.set.IdentityURLs {
		return t, nil
	}
	var expires time.Time
	if e.Name == "" {
		expires = t.ExpiresAt
	}
	var err error
	t.IdentityURL, err = s.identityURL(ctx, by, stored.Instance, stored.Tenant, expires)
	t.Env = s.env(e.WakeURL)
	t.Env[envTokenURL] = t.IdentityURL
	delete(t.Env, envPlatform) // gateways that fetch proof of who they are do not read the older names
	delete(t.Env, envBotID)
	return t, err
}

// enrollable refuses a name with which Enroll would fail now.
func (s *gateways) enrollable(ctx context.Context, e Enroll) error {
	if e.Name == "" {
		return nil
	}
	if i, err := s.db.Labels.Find(ctx, e.Name); !errors.Is(err, store.ErrNotFound) {
		return cmp.Or(err, error(refuse(Exists, "%q is the name that %q was given", e.Name, i.ID)))
	}
	g, err := store.Only(s.db.Gateways(ctx, relay.GatewayID(e.Name)))
	switch {
	case err == nil && !g.Revoked:
		return refuse(Exists, "a gateway called %q exists already", e.Name).try("rotate", e.Name)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	}
	i, err := store.Only(s.db.Instances(ctx, relay.InstanceID(e.Name)))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err == nil && i.Tenant != relay.TenantID(e.Tenant):
		return refuse(Exists, "%q was a gateway of tenant %q and cannot change tenants: give --tenant %s, or another name", e.Name, i.Tenant, i.Tenant)
	}
	return err
}
