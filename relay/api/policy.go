package api

import (
	"context"
	"errors"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// relevance replaces the gateway's whole declaration about a platform (wire.md 1.4). The parts that only the operator
// can set stay.
func relevance(name string, b *body) manage.SetRelevance {
	platform, address := id[relay.PlatformID](b, "platform"), b.flag("requireAddress")
	free, bots := ids[relay.ChatID](b, "freeResponseScopes"), b.flag("allowOtherBots")
	return manage.SetRelevance{Name: name, Platform: platform, RequireAddress: &address, Free: &free, AllowBots: &bots}
}

// declare stores a gateway's declaration. For a platform that this program does not know it stores nothing and returns
// ignored.
func declare(ctx context.Context, s *manage.Service, by audit.Actor, p manage.SetRelevance) (any, error) {
	set, err := ops.SetRelevance.Do(ctx, s, by, p)
	if refused, ok := errors.AsType[*manage.Error](err); ok && refused.Why == manage.Usage && refused.Field == "platform" {
		// A gateway declares its policy for every platform that it serves, and warns of every answer that is not 200.
		// For a network that this program does not know there is nothing to store.
		return ignored{Platform: p.Platform, Ignored: true}, nil
	}
	return set, err
}

// ignored is the answer about a platform that this program does not speak.
type ignored struct {
	Platform relay.PlatformID `json:"platform"`
	Ignored  bool             `json:"ignored"`
}
