package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// enroll makes a gateway for the holder of an enrollment token. A bad token counts as a failed credential.
func (a *API) enroll(ctx context.Context, r *request) (any, error) {
	by, c, err := a.identified(ctx, r)
	if err != nil {
		return nil, err
	}
	b, err := a.strangersBody(r)
	if err != nil {
		return nil, err
	}
	et := b.text("enrollmentToken")
	e := manage.EnrollByToken{Token: relay.NewSecret([]byte(et)), Gateway: relay.GatewayID(b.text("gatewayId")), Tenant: c.Tenant}
	if b.err != nil {
		return nil, b.err
	}
	done, err := ops.EnrollByToken.Do(ctx, a.svc, by, e)
	refused, ok := errors.AsType[*manage.Error](err)
	switch {
	case ok && refused.Why == manage.Forbidden: // the gateway shows the message to its operator
		return nil, a.failed(r, routes.Refused(http.StatusForbidden, refused.Message), unknown)
	case ok: // the token is good, and stays good: not counted, it would be enough to try every name
		return nil, cmp.Or(a.take(a.managing, "enrollment "+digest(et)), err)
	case err != nil:
		return nil, err
	}
	done.Env = nil // the gateway writes its own (wire.md 1.1)
	return done, nil
}

// strangersBody reads a body that contains the credential.
func (a *API) strangersBody(r *request) (*body, error) {
	leave, ok := a.strangers.Enter(r.from)
	if !ok {
		return nil, tooManyAtOnce()
	}
	defer leave()
	return readBody(r, strangersTime)
}
