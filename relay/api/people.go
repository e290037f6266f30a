package api

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// link makes a code that binds whoever sends it to the bot.
func (a *API) link(ctx context.Context, i relay.InstanceID, r *request) (any, error) {
	b, err := r.body()
	if err != nil {
		return nil, err
	}
	platform := optionalID[relay.PlatformID](b, "platform")
	if b.err != nil {
		return nil, b.err
	}
	return a.svc.Link(ctx, manage.LinkFor{Name: string(i), Platform: platform})
}

// dmDefault sends a person's direct messages to the instance, of several the person is bound to.
func (a *API) dmDefault(ctx context.Context, i relay.InstanceID, r *request) (any, error) {
	b, err := r.body()
	if err != nil {
		return nil, err
	}
	who := manage.Bind{Name: string(i), Platform: id[relay.PlatformID](b, "platform"), User: id[relay.UserID](b, "userId")}
	if b.err != nil {
		return nil, b.err
	}
	return a.svc.SetDMDefault(ctx, who)
}

// principal says who may speak in the instance's chats, besides those bound to it.
func (a *API) principal(ctx context.Context, i relay.InstanceID, r *request) (any, error) {
	b, err := r.body()
	if err != nil {
		return nil, err
	}
	p := manage.SetPrincipal{Name: string(i), Policy: relay.PrincipalPolicy(b.text("policy")), Allow: b.people("allow")}
	if b.err != nil {
		return nil, b.err
	}
	return a.svc.SetPrincipal(ctx, p)
}
