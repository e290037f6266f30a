package manage

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// newcomers manages gateways that enroll themselves.
type newcomers struct{ *gateways }

const (
	// bootWindow is how long a new secret, and an identity token, serve one start of a gateway, which calls once per
	// platform and needs the same answer each time (wire.md 1.3).
	bootWindow = 2 * time.Minute
	// Limits of what a gateway may declare as routes of one platform.
	maxRouteKeys = 100
	maxRouteKey  = 256 // bytes
)

// Provision is the request of a gateway for its credentials at its start. Its identity proves Tenant and Instance; the
// other fields are its own claims.
type Provision struct {
	Tenant           relay.TenantID
	Instance         relay.InstanceID // empty: the identity names none
	Gateway          relay.GatewayID
	AssertedInstance relay.InstanceID // used for a new gateway whose identity names no instance
	Platform         relay.PlatformID
	WakeURL          *string   // nil: unchanged
	RouteKeys        []string  // the platform's routes; nil: unchanged
	Began            time.Time // when the gateway fetched its identity for this start; zero: not known
}

// Provisioned is the answer to the gateway.
type Provisioned struct {
	// SecretIssued is false for a gateway that has had its secret. Both credentials are empty then.
	SecretIssued bool             `json:"secretIssued"`
	Secret       string           `json:"secret,omitempty"`
	DeliveryKey  string           `json:"deliveryKey,omitempty"`
	Tenant       relay.TenantID   `json:"tenant"`
	Gateway      relay.GatewayID  `json:"gatewayId"` // not the id that the gateway asked for, if that id is taken
	Instance     relay.InstanceID `json:"instanceId"`
	RouteKeys    []string         `json:"routeKeys"` // the keys that the gateway asked for and got
	// Warnings are sentences about claims of the gateway that the connector does not use.
	Warnings []string `json:"warnings,omitempty"`
}

// Provision gives a gateway the secret of this start. All calls within two minutes get the same one, until the gateway
// has connected with it. A replay after that gets none. A call that may belong to the next start gets a new one,
// because a gateway that starts has lost its former one. Refused with NotFound, Forbidden or Usage.
func (s *newcomers) Provision(ctx context.Context, by audit.Actor, p Provision) (Provisioned, error) {
	if err := checkProvision(p); err != nil {
		return Provisioned{}, err
	}
	p, wakeFault, warnings := s.usable(p)
	g, err := s.seatFor(ctx, by, p)
	if err != nil {
		return Provisioned{}, err
	}
	out := Provisioned{Tenant: g.Tenant, Gateway: g.ID, Instance: g.Instance, RouteKeys: []string{}, Warnings: warnings}
	if err := s.declare(ctx, by, p, wakeFault, g, &out); err != nil {
		return Provisioned{}, err
	}
	if !p.Began.IsZero() && s.set.Now().Sub(p.Began) >= bootWindow { // that start is over: a replay, which makes no secret
		return out, nil
	}
	newest, err := s.auth.Newest(ctx, gatewayRow(by, "provision", g, "new secret"), g.ID, bootWindow)
	if errors.Is(err, token.ErrRevoked) || errors.Is(err, store.ErrNotFound) { // it was revoked or deleted meanwhile
		return Provisioned{}, revoked(string(g.ID))
	}
	if err != nil {
		return Provisioned{}, err
	}
	if s.had(ctx, g, p, newest) {
		return out, nil
	}
	key, err := s.auth.DeliveryKey(ctx, g.ID)
	if err != nil {
		return Provisioned{}, err
	}
	out.SecretIssued, out.Secret, out.DeliveryKey = true, newest.Secret.RevealString(), key.RevealString()
	return out, nil
}

func checkProvision(p Provision) error {
	err := cmp.Or(checkName("gatewayId", "a gateway", string(p.Gateway)), checkName("platform", "a platform", string(p.Platform)))
	if err == nil && p.AssertedInstance != "" {
		err = checkName("instanceId", "an instance", string(p.AssertedInstance))
	}
	return err
}

// usable returns p without the parts that cannot be used and that the gateway can do without, and a sentence about each
// such part. wakeFault is the sentence about the wake URL; empty: the URL is fine.
func (s *newcomers) usable(p Provision) (_ Provision, wakeFault string, warnings []string) {
	if p.WakeURL != nil {
		if err := s.checkWakeURL(*p.WakeURL); err != nil {
			wakeFault = fmt.Sprintf("The wake URL that the gateway names is not used: %v.", err)
			p.WakeURL, warnings = nil, append(warnings, wakeFault)
		}
	}
	unfit := func(k string) bool { return !fit(k, maxRouteKey) }
	if keys := slices.DeleteFunc(slices.Clone(p.RouteKeys), unfit); len(keys) < len(p.RouteKeys) {
		warnings = append(warnings, fmt.Sprintf("Route keys that are not used: %d; one is the id of a chat or a scope, or a path, of 1 to %d bytes.",
			len(p.RouteKeys)-len(keys), maxRouteKey))
		p.RouteKeys = keys
	}
	if len(p.RouteKeys) > maxRouteKeys {
		warnings = append(warnings, fmt.Sprintf("Of %d route keys the first %d are used: there may be no more for each platform.",
			len(p.RouteKeys), maxRouteKeys))
		p.RouteKeys = p.RouteKeys[:maxRouteKeys]
	}
	return p, wakeFault, warnings
}

// seatTries bounds the search for a gateway id: variations of a name, and races with other calls.
const seatTries = 16

// seatFor finds or makes the gateway of p. If the wanted name is taken, the gateway gets another name and no refusal:
// ids default to host names, which containers share, and nobody must learn whose the name was. All calls of one start
// get the same name.
func (s *newcomers) seatFor(ctx context.Context, by audit.Actor, p Provision) (store.Gateway, error) {
	variation := 0
	for range seatTries {
		g, ok, err := s.seat(ctx, by, p, s.vary(p, variation))
		switch {
		case errors.Is(err, store.ErrExists): // another call was faster: look again
		case errors.Is(err, store.ErrTooMany):
			return g, refuse(Forbidden, "the tenant %q already has as many gateways as may enroll themselves: enroll this one by hand", p.Tenant)
		case err != nil || ok:
			return g, err
		default:
			variation++
		}
	}
	return store.Gateway{}, nameTaken()
}

// seat returns the gateway called id for p; ok is false if that id belongs to somebody else. If no such gateway exists,
// or it is p's and revoked, seat makes it, unless its instance belongs to another tenant.
func (s *newcomers) seat(ctx context.Context, by audit.Actor, p Provision, id relay.GatewayID) (g store.Gateway, ok bool, err error) {
	g, err = store.Only(s.db.Gateways(ctx, id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		if _, err := s.db.Labels.Find(ctx, string(id)); !errors.Is(err, store.ErrNotFound) { // another instance has that name
			return g, false, err
		}
		g.Instance = cmp.Or(p.Instance, p.AssertedInstance, relay.InstanceID(id))
	case err != nil:
		return g, false, err
	case g.Tenant != p.Tenant || p.Instance != "" && g.Instance != p.Instance:
		return g, false, nil
	case !g.Revoked:
		return g, true, nil
	}
	i, err := store.Only(s.db.Instances(ctx, g.Instance))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return g, false, err
	}
	if err == nil && i.Tenant != p.Tenant {
		if p.Instance == "" && p.AssertedInstance == "" { // p did not ask for this instance, so another id may do
			return g, false, nil
		}
		return g, false, noGateway(string(g.Instance))
	}
	g, err = s.admit(ctx, by, p, id, g.Instance)
	return g, err == nil, err
}

// admit makes the gateway called id, and stores it with the instance inst. It does not return the gateway's secret:
// Provision reads the newest one afterwards.
func (s *newcomers) admit(ctx context.Context, by audit.Actor, p Provision, id relay.GatewayID, inst relay.InstanceID) (store.Gateway, error) {
	_, g := s.auth.Issue(id)
	if err := s.noteServing(ctx, inst); err != nil {
		return g, err
	}
	g.Instance, g.Tenant, g.Provisioned = inst, p.Tenant, true
	i := store.Instance{ID: inst, Tenant: p.Tenant, CreatedAt: g.CreatedAt}
	if p.WakeURL != nil {
		i.WakeURL = *p.WakeURL
	}
	return g, s.db.Enroll(ctx, gatewayRow(by, "provision", g, "new gateway"), g, i)
}

// noteServing notes that the gateway whose session serves the instance is seen now. The store forgets the gateways that
// were seen longest ago, and this one was last seen when its session began.
func (s *newcomers) noteServing(ctx context.Context, i relay.InstanceID) error {
	if s.live == nil || !s.live.Connected(i) {
		return nil
	}
	all, err := s.db.Gateways(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(g store.Gateway) bool { return g.Provisioned && g.Instance == i && s.live.Serves(g.ID, i) })
	if at < 0 {
		return nil
	}
	return s.db.UpdateGateway(ctx, nil, all[at].ID, store.CameOrWent(s.set.Now(), false))
}

// vary returns the n-th name to try for p's gateway; the 0th is the one it asked for. Others cannot foresee the further
// ones, so they cannot take them in advance.
func (s *newcomers) vary(p Provision, n int) relay.GatewayID {
	if n == 0 {
		return p.Gateway
	}
	whose := strings.Join([]string{string(p.Tenant), string(p.Instance), string(p.Gateway), strconv.Itoa(n)}, "/")
	tail := "-" + hex.EncodeToString(s.mac.MAC(GatewayPurpose, relay.NewSecret([]byte(whose))))[:6]
	head := string(p.Gateway)
	if most := relay.MaxName - len(tail); len(head) > most {
		head = strings.ToValidUTF8(head[:most], "")
	}
	return relay.GatewayID(head + tail)
}

// declare stores the gateway's claims about itself: its wake URL, if p has one; wakeFault, which says why a wake URL
// cannot be used, or is empty; and its routes, if p has some. The routes that were accepted go into out.
func (s *newcomers) declare(ctx context.Context, by audit.Actor, p Provision, wakeFault string, g store.Gateway, out *Provisioned) error {
	err := s.db.UpdateInstance(ctx, gatewayRow(by, "provision", g, "wake URL"), g.Instance, func(i *store.Instance) error {
		if p.WakeURL != nil {
			i.WakeURL = *p.WakeURL
		}
		i.WakeFault = wakeFault
		return nil
	})
	if err != nil {
		return err
	}
	// A gateway without a named platform serves all of them; no chat of that pseudo-platform can be claimed.
	if p.RouteKeys == nil || p.Platform == relay.RelayPlatform {
		return nil
	}
	declared := gatewayRow(by, "route", g, strconv.Itoa(len(p.RouteKeys))+" declared on "+string(p.Platform))
	accepted, err := s.db.Routes.Set(ctx, declared, g.Instance, p.Platform, p.RouteKeys)
	out.RouteKeys = append(out.RouteKeys, accepted...)
	return err
}

// had reports whether the call does not belong to a new start. That is so if the gateway has connected with its newest
// secret (no older one is left, and it was seen since), and either is connected now or fetched p's identity before that
// secret was made. A connection counts only if its gateway answers: the socket of a host that lost power looks alive
// when the host is back and asks.
func (s *newcomers) had(ctx context.Context, g store.Gateway, p Provision, newest token.Newest) bool {
	if !newest.OldUntil.IsZero() || g.LastSeenAt.Before(newest.CreatedAt) {
		return false
	}
	if s.live != nil && s.live.Answers(ctx, g.ID, g.Instance) {
		return true
	}
	// A secret from the future tells that the clock was set back; then the order of the two is unknown.
	return !p.Began.IsZero() && !p.Began.After(newest.CreatedAt) && !newest.CreatedAt.After(s.set.Now())
}
