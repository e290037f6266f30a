package api

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// self is what the instance is, holds and misses.
func (a *API) self(ctx context.Context, i relay.InstanceID, _ *request) (any, error) {
	return a.svc.Self(ctx, manage.Named{Name: string(i)})
}

// deprovisioned is the answer to deprovision.
type deprovisioned struct {
	OK bool `json:"ok"`
	manage.Deprovisioned
}

// deprovision revokes every gateway of the instance, and drops what it holds. It takes an empty
// object, so that nobody gets there by mistake.
func (a *API) deprovision(ctx context.Context, i relay.InstanceID, r *request) (any, error) {
	if _, err := r.body(); err != nil {
		return nil, err
	}
	gone, err := a.svc.Deprovision(ctx, manage.Named{Name: string(i)})
	return deprovisioned{OK: true, Deprovisioned: gone}, err
}
