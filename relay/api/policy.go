package api

import (
	"context"
	"errors"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// policy replaces what the gateway declared about a platform (wire.md 1.4). What the operator
// alone can say about it stays.
func (a *API) policy(ctx context.Context, i relay.InstanceID, r *request) (any, error) {
	b, err := r.body()
	if err != nil {
		return nil, err
	}
	platform := id[relay.PlatformID](b, "platform")
	address := b.flag("requireAddress")
	free := ids[relay.ChatID](b, "freeResponseScopes")
	bots := b.flag("allowOtherBots")
	if b.err != nil {
		return nil, b.err
	}
	set, err := a.svc.SetRelevance(ctx, manage.SetRelevance{
		Name: string(i), Platform: platform, RequireAddress: &address, Free: &free, AllowBots: &bots,
	})
	if refused, ok := errors.AsType[*manage.Error](err); ok && refused.Kind == manage.Usage && refused.Field == "platform" {
		// A gateway declares it for every platform it fronts and warns of what is not 200. There
		// is nothing to keep for a network that this program does not speak.
		return ignored{Platform: platform, Ignored: true}, nil
	}
	return set, err
}

// ignored is the answer about a platform that this program does not speak.
type ignored struct {
	Platform relay.PlatformID `json:"platform"`
	Ignored  bool             `json:"ignored"`
}
