package api

import (
	"context"
	"errors"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// relevance is a full replacement of what the gateway declared about a platform (wire.md 1.4). What the
// operator alone can say about it stays.
func relevance(name string, b *body) manage.SetRelevance {
	platform, address := id[relay.PlatformID](b, "platform"), b.flag("requireAddress")
	free, bots := ids[relay.ChatID](b, "freeResponseScopes"), b.flag("allowOtherBots")
	return manage.SetRelevance{Name: name, Platform: platform, RequireAddress: &address, Free: &free, AllowBots: &bots}
}

func declare(ctx context.Context, s *manage.Service, by audit.Actor, p manage.SetRelevance) (any, error) {
	set, err := ops.SetRelevance.Do(ctx, s, by, p)
	if refused, ok := errors.AsType[*manage.Error](err); ok && refused.Why == manage.Usage && refused.Field == "platform" {
		// A gateway declares it for every platform it fronts and warns of what is not 200. There
		// is nothing to keep for a network that this program does not speak.
		return ignored{Platform: p.Platform, Ignored: true}, nil
	}
	return set, err
}

// ignored is the answer about a platform that this program does not speak.
type ignored struct {
	Platform relay.PlatformID `json:"platform"`
	Ignored  bool             `json:"ignored"`
}
