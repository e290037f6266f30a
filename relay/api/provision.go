package api

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// provision gives a gateway the secret of this start (wire.md 1.3).
func (a *API) provision(ctx context.Context, r *request) (any, error) {
	by, c, err := a.identified(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case c.Proof == identity.Anonymous:
		return nil, a.failed(r, routes.Unauthorized(), unknown)
	case c.Proof == identity.Ambient && c.Instance == "": // such a code serves only for enrollment
		return nil, forbidden()
	}
	b, err := readBody(r, bodyTime)
	if err != nil {
		return nil, err
	}
	p := manage.Provision{
		Tenant:           c.Tenant,
		Instance:         c.Instance,
		Began:            c.Minted,
		Gateway:          id[relay.GatewayID](b, "gatewayId"),
		AssertedInstance: optionalID[relay.InstanceID](b, "instanceId"),
		Platform:         id[relay.PlatformID](b, "platform"),
		WakeURL:          b.optionalText("wakeUrl"),
		RouteKeys:        b.optionalTexts("routeKeys"),
	}
	for _, unused := range []string{"botId", "gatewayEndpoint", "displayName"} {
		b.optionalText(unused)
	}
	if b.err != nil {
		return nil, b.err
	}
	return ops.Provision.Do(ctx, a.svc, by, p)
}
