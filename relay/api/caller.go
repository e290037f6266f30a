package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// caller is the instance for which a credential stands, and the holder of that credential.
type caller struct {
	instance relay.InstanceID
	actor    audit.Actor
}

// own is a route about the instance that the caller's credential names.
type own func(*API, context.Context, caller, *request) (any, error)

// byManager makes a route for callers with a gateway's bearer or a managed token. Their dots tell them apart: a bearer
// has none, a managed token two.
func byManager(do own) handler {
	return func(a *API, ctx context.Context, r *request) (any, error) {
		prove := a.gateway
		if strings.Count(routes.Bearer(r.Request), ".") == 2 {
			prove = a.managed
		}
		c, err := prove(ctx, r)
		if err != nil {
			return nil, err
		}
		return do(a, ctx, c, r)
	}
}

// gateway verifies a gateway's bearer and returns its caller (wire.md 2.2). An expired bearer is refused and counted
// like a wrong one, since a thief could send it for ever.
func (a *API) gateway(ctx context.Context, r *request) (caller, error) {
	peer, verdict, err := a.auth.Verify(ctx, routes.Bearer(r.Request))
	switch {
	case err != nil:
		return caller{}, err
	case verdict == token.Expired:
		return caller{}, a.failed(r, routes.Unauthorized(), "expired token refused; check the clocks", "gateway", peer.Gateway)
	case verdict != token.Valid:
		return caller{}, a.failed(r, routes.Unauthorized(), unknown)
	}
	limits.Verified(ctx)
	actor := audit.Actor{Kind: audit.ActorGateway, Name: string(peer.Gateway)}
	return caller{peer.Instance, actor}, a.take(a.managing, "gateway "+string(peer.Gateway))
}

// managed verifies a managed token and returns its caller. The instance and tenant in the token must be those of a
// record. Verifying asks no third party about the token (relay/identity bounds how often it fetches keys), so it needs
// no limit.
func (a *API) managed(ctx context.Context, r *request) (caller, error) {
	m, err := a.id.Managed(ctx, routes.Bearer(r.Request))
	if errors.Is(err, identity.ErrUnauthorized) {
		return caller{}, a.failed(r, routes.Unauthorized(), unknown, "err", err)
	}
	if err != nil {
		return caller{}, err
	}
	limits.Verified(ctx)
	// Counted by the tenant too: another tenant's tokens that name this instance must not use up its requests.
	if err := a.take(a.managing, "instance "+string(m.Tenant)+"/"+string(m.Instance)); err != nil {
		return caller{}, err
	}
	if err := a.svc.Manageable(ctx, m.Instance, m.Tenant); err != nil {
		return caller{}, err
	}
	return caller{m.Instance, audit.Actor{Kind: audit.ActorJWT, Name: m.Subject}}, nil
}

// identified verifies the caller of enroll or provision, and also returns the actor for the audit list. If the check
// needs a question to a third party, an address that has used up its failures, or has maxStrangers requests open, is
// refused.
func (a *API) identified(ctx context.Context, r *request) (by audit.Actor, c identity.Caller, err error) {
	if a.id.Asks(routes.Bearer(r.Request)) {
		if wait := a.failures.Wait(r.from, a.now()); wait > 0 {
			return by, c, tooManyFailures(wait)
		}
		leave, ok := a.strangers.Enter(r.from)
		if !ok {
			return by, c, tooManyAtOnce()
		}
		defer leave()
	}
	c, err = a.id.Caller(ctx, routes.Bearer(r.Request))
	if errors.Is(err, identity.ErrUnauthorized) {
		return by, c, a.failed(r, routes.Unauthorized(), unknown, "err", err)
	}
	if err != nil {
		return by, c, err
	}
	name := "enrollment token" // an anonymous caller has no other name
	if c.Proof != identity.Anonymous {
		limits.Verified(ctx)
		name = strings.TrimSuffix(string(c.Tenant)+":"+c.Subject, ":")
		if err := a.take(a.booting, name); err != nil {
			return by, c, err
		}
	}
	return audit.Actor{Kind: audit.ActorIdentity, Name: name}, c, nil
}

// unknown is the log's text about an unknown credential.
const unknown = "unknown credential refused"

// failed counts a refused credential against its address. It returns refused and logs the message said with attrs, or,
// if the address has used up its failures, it returns a 429 and logs nothing.
func (a *API) failed(r *request, refused *routes.Refusal, said string, attrs ...any) error {
	if wait := a.failures.Add(r.from, a.now()); wait > 0 {
		return tooManyFailures(wait)
	}
	a.log.Info(said, append([]any{"from", r.from, "route", r.route}, attrs...)...)
	return refused
}

// digest returns the key under which a credential's requests are counted, so that the credential itself is not kept.
func digest(credential string) string {
	sum := sha256.Sum256([]byte(credential))
	return string(sum[:])
}

// take counts a request for key, or refuses it.
func (a *API) take(of *limits.Rates, key string) error {
	if wait := of.Take(key, a.now()); wait > 0 {
		return routes.Busy(wait, "too many requests")
	}
	return nil
}

func tooManyFailures(wait time.Duration) *routes.Refusal {
	return routes.Busy(wait, "too many failed attempts")
}

func tooManyAtOnce() *routes.Refusal { return routes.Busy(time.Second, "too many requests at once") }
