package api

import (
	"context"
	"errors"

	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// identityToken is the part of a token endpoint's answer that the gateway's client reads (wire.md 1.2).
type identityToken struct {
	Token   string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int    `json:"expires_in"` // seconds
}

// identity returns an identity token for the identity code in the path, which is the credential. Gateways of July POST
// client credentials as well, which are ignored.
func (a *API) identity(ctx context.Context, r *request) (any, error) {
	minted, life, err := a.id.Mint(ctx, r.rest)
	if errors.Is(err, identity.ErrUnauthorized) {
		return nil, a.failed(r, routes.NotFound(), unknown, "err", err)
	}
	if err != nil {
		return nil, err
	}
	if err := a.take(a.managing, "code "+digest(r.rest)); err != nil {
		return nil, err
	}
	return identityToken{Token: minted, Type: "Bearer", Expires: int(life.Seconds())}, nil
}
