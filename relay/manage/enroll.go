package manage

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/url"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Enroll asks for credentials of a new gateway.
type Enroll struct {
	Name    string `json:"name"`              // gateway and instance id
	Tenant  string `json:"tenant,omitempty"`  // empty means relay.DefaultTenant
	WakeURL string `json:"wakeUrl,omitempty"` // what to GET when messages wait and the gateway is away
}

// Enrolled are a gateway's credentials. Secret, DeliveryKey and Env are the credentials
// themselves, in the clear because they are made to be handed over: whoever holds an Enrolled
// writes it to the operator and to nothing else.
type Enrolled struct {
	Gateway     relay.GatewayID   `json:"gatewayId"`
	Instance    relay.InstanceID  `json:"instanceId"`
	Tenant      relay.TenantID    `json:"tenant"`
	Secret      string            `json:"secret"`
	DeliveryKey string            `json:"deliveryKey"`
	URL         string            `json:"url"`
	Env         map[string]string `json:"env"` // what the gateway reads, whatever its age
}

// Enroll makes a gateway with its instance, and in a new tenant the tenant. Refused with Exists
// when the name is taken by a gateway that is not revoked, with Usage when an argument is unfit.
func (s *Service) Enroll(ctx context.Context, e Enroll) (Enrolled, error) {
	if err := e.check(); err != nil {
		return Enrolled{}, err
	}
	id := relay.GatewayID(e.Name)
	cred, g, err := s.auth.Issue(id)
	if err != nil {
		return Enrolled{}, err
	}
	g.Instance, g.Tenant = relay.InstanceID(e.Name), relay.TenantID(e.Tenant)
	i := store.Instance{ID: g.Instance, Tenant: g.Tenant, WakeURL: e.WakeURL, CreatedAt: g.CreatedAt}
	if err := s.db.Enroll(ctx, g, i); err != nil {
		return Enrolled{}, s.whyTaken(ctx, e, err)
	}
	return s.enrolled(g, e.WakeURL, cred.Secret, cred.DeliveryKey), nil
}

// check fills in the default tenant.
func (e *Enroll) check() error {
	if e.Tenant == "" {
		e.Tenant = string(relay.DefaultTenant)
	}
	if err := relay.CheckName(e.Name); err != nil {
		return refuse(Usage, err, "%q cannot name a gateway: %v", e.Name, err)
	}
	if err := relay.CheckName(e.Tenant); err != nil {
		return refuse(Usage, err, "%q cannot name a tenant: %v", e.Tenant, err)
	}
	return checkWakeURL(e.WakeURL)
}

// checkWakeURL judges the form only; where it may point is decided when it is used.
func checkWakeURL(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return refuse(Usage, nil, "the wake URL must be http:// or https:// with a host and without a user or password")
	}
	return nil
}

// whyTaken explains an err of the store that may be ErrExists.
func (s *Service) whyTaken(ctx context.Context, e Enroll, err error) error {
	if !errors.Is(err, store.ErrExists) {
		return err
	}
	if g, asked := s.db.Gateway(ctx, relay.GatewayID(e.Name)); asked == nil && !g.Revoked {
		return taken(e.Name, err)
	}
	i, asked := s.db.Instance(ctx, relay.InstanceID(e.Name))
	if asked != nil {
		return errors.Join(err, asked)
	}
	return refuse(Exists, err, "%q was an agent of tenant %q and cannot change tenants: give --tenant %s, or another name", e.Name, i.Tenant, i.Tenant)
}

func taken(name string, err error) error {
	return refuse(Exists, err, "a gateway called %q exists already: hermes-connector gateway rotate %s gives it new credentials", name, name)
}

func (s *Service) enrolled(g store.Gateway, wakeURL string, secret, deliveryKey relay.Secret) Enrolled {
	e := Enrolled{
		Gateway: g.ID, Instance: g.Instance, Tenant: g.Tenant,
		Secret: secret.RevealString(), DeliveryKey: deliveryKey.RevealString(), URL: s.set.URL,
	}
	e.Env = s.env(e, wakeURL)
	return e
}

// tokenAge is how long an enrollment token can be used.
const tokenAge = 15 * time.Minute

// enrollmentPurpose separates the stored form of enrollment tokens from that of everything else.
const enrollmentPurpose = "enrollment"

// EnrollmentToken lets a gateway enroll itself once.
type EnrollmentToken struct {
	Token     string          `json:"enrollmentToken"` // 256 random bits, made to be handed over
	ExpiresAt time.Time       `json:"expiresAt"`
	Tenant    relay.TenantID  `json:"tenant"`
	Gateway   relay.GatewayID `json:"gatewayId,omitempty"`
}

// EnrollToken makes a token with which the gateway can enroll itself within 15 minutes. Only its
// MAC is stored. Refusals are those of Enroll.
func (s *Service) EnrollToken(ctx context.Context, e Enroll) (EnrollmentToken, error) {
	if err := e.check(); err != nil {
		return EnrollmentToken{}, err
	}
	g, err := s.db.Gateway(ctx, relay.GatewayID(e.Name))
	switch {
	case err == nil && !g.Revoked:
		return EnrollmentToken{}, taken(e.Name, nil)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return EnrollmentToken{}, err
	}
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails: it ends the process instead
	t := EnrollmentToken{
		Token:     base64.RawURLEncoding.EncodeToString(raw),
		ExpiresAt: s.set.Now().Add(tokenAge).UTC().Truncate(time.Second),
		Tenant:    relay.TenantID(e.Tenant),
		Gateway:   relay.GatewayID(e.Name),
	}
	mac := s.mac.MAC(enrollmentPurpose, relay.NewSecret([]byte(t.Token)))
	return t, s.db.PutEnrollmentToken(ctx, mac, store.EnrollmentToken{
		Tenant: t.Tenant, Gateway: t.Gateway, Instance: relay.InstanceID(e.Name), WakeURL: e.WakeURL,
		CreatedAt: s.set.Now(), ExpiresAt: t.ExpiresAt,
	})
}
