package discord

import (
	"context"
	"net/http"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/relay"
)

// typingLasts is how long we let one "is typing…" stand before the next. Discord shows it for ten
// seconds; a gateway asks every two.
const typingLasts = 8 * time.Second

// Typing implements platforms.Typer. It leaves at once or not at all, at most one in typingLasts.
func (p *Platform) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	t, err := p.turns.AtOnce(ctx, a.Chat)
	if t == nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	r := request{method: http.MethodPost, endpoint: discordgo.EndpointChannelTyping(string(a.Chat))}
	if p.rest.OpensIn(ctx, r.method, r.endpoint) > 0 || !p.turns.Limiter.Due(a.Chat, "typing", typingLasts) {
		return relay.Result{}, nil
	}
	err = p.call(ctx, t, r, nil)
	if err != nil && !call.FaultOf(err).Limited() {
		return relay.Result{}, explained(err)
	}
	return relay.Result{}, nil
}
