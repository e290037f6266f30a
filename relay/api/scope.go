package api

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// claim grants a chat, or with no chat a whole scope, to the instance. Every refusal but one for
// another holder is the same.
func (a *API) claim(ctx context.Context, i relay.InstanceID, r *request) (any, error) {
	s, err := scope(i, r)
	if err != nil {
		return nil, err
	}
	return a.svc.ClaimOwned(ctx, s)
}

// release gives it back.
func (a *API) release(ctx context.Context, i relay.InstanceID, r *request) (any, error) {
	s, err := scope(i, r)
	if err != nil {
		return nil, err
	}
	return a.svc.Release(ctx, s)
}

// scope is what both are about.
func scope(i relay.InstanceID, r *request) (manage.Scope, error) {
	b, err := r.body()
	if err != nil {
		return manage.Scope{}, err
	}
	s := manage.Scope{
		Name:     string(i),
		Platform: id[relay.PlatformID](b, "platform"),
		Scope:    optionalID[relay.ScopeID](b, "scopeId"),
		Chat:     optionalID[relay.ChatID](b, "chatId"),
	}
	if s.Scope == "" && s.Chat == "" {
		b.fault("chatId", "missing, and so is scopeId")
	}
	return s, b.err
}
