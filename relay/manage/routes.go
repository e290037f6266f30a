package manage

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// Route keeps other tenants from claiming a scope, a chat or a path. It does not decide who receives messages.
type Route struct {
	Platform relay.PlatformID `json:"platform"`
	Key      string           `json:"key"`
	Tenant   relay.TenantID   `json:"tenant"`
	Instance relay.InstanceID `json:"instanceId"` // which declared it
	At       time.Time        `json:"at,omitzero"`
}

// Routes lists the routes an instance declared, or with an empty name all. Refused with NotFound.
func (s *Service) Routes(ctx context.Context, n Named) ([]Route, error) {
	var of relay.InstanceID
	if n.Name != "" {
		i, err := s.instance(ctx, n.Name)
		if err != nil {
			return nil, err
		}
		of = i.ID
	}
	all, err := s.db.Routes.List(ctx)
	if err != nil {
		return nil, err
	}
	out := []Route{}
	for _, r := range all {
		if n.Name == "" || r.Instance == of {
			out = append(out, Route{Platform: r.Platform, Key: r.Key, Tenant: r.Tenant, Instance: r.Instance, At: utc(r.At)})
		}
	}
	return out, nil
}

// RouteKey names a route.
type RouteKey struct {
	Platform relay.PlatformID `json:"platform"`
	Key      string           `json:"key"`
}

// DropRoute frees what a route reserves, until its gateway starts again and declares it. Refused with NotFound.
func (s *Service) DropRoute(ctx context.Context, k RouteKey) (RouteKey, error) {
	ctx = audit.With(ctx, audit.Entry{Action: actRoute, Detail: "dropped " + string(k.Platform) + " " + k.Key})
	err := s.db.Routes.Drop(ctx, k.Platform, k.Key)
	if errors.Is(err, store.ErrNotFound) {
		return RouteKey{}, refuse(NotFound, err, "there is no such route: hermes-connector route list shows what there is")
	}
	return k, err
}
