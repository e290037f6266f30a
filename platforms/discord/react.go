package discord

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/turn"
	"github.com/hermes-connector/hermes-connector/relay"
)

// reactWait is how long a reaction waits, for its turn and for its bucket, which holds one in a quarter
// of a second. It is cosmetic.
const reactWait = 2 * time.Second

// React implements platforms.Reacter. Removing what is not there is success.
func (p *Platform) React(ctx context.Context, a relay.React) (relay.Result, error) {
	if !rest.IsID(string(a.Message)) {
		return relay.Result{}, errUnknownMessage
	}
	emoji := emojiInPath(a.Emoji)
	if emoji == "" {
		return relay.Result{}, errUnknownEmoji
	}
	until := time.Now().Add(reactWait)
	r := request{method: http.MethodPut, endpoint: discordgo.EndpointMessageReaction(string(a.Chat), string(a.Message), emoji, "@me")}
	if a.Remove {
		r.method = http.MethodDelete
	}
	t, err := p.turns.Signal(ctx, a.Chat)
	if err != nil {
		return relay.Result{}, err
	}
	t.Leave() // a reaction has no place in the chat's order: while it waits for its share, others may write
	if d := p.rest.OpensIn(ctx, r.method, r.endpoint); d > time.Until(until) {
		return relay.Result{}, turn.Dropped(platforms.NotSent(d, nil))
	}
	err = p.call(ctx, t, r, nil)
	switch {
	case err == nil || a.Remove && refusedWith(err, discordgo.ErrCodeUnknownEmoji):
		return relay.Result{MessageID: a.Message}, nil
	case call.FaultOf(err).Limited():
		return relay.Result{}, turn.Dropped(err)
	}
	return relay.Result{}, explained(err)
}

// emojiInPath is an emoji as it stands in a path: Unicode as it is, a custom one, written as in a
// message (<:name:id>) or bare, as name:id.
func emojiInPath(emoji string) string {
	emoji = strings.TrimSpace(emoji)
	if inner, ok := strings.CutPrefix(emoji, "<"); ok {
		inner = strings.TrimSuffix(inner, ">")
		inner = strings.TrimPrefix(inner, "a:")
		emoji = strings.TrimPrefix(inner, ":")
	}
	if emoji == "." || emoji == ".." { // would leave the path
		return ""
	}
	return url.PathEscape(emoji)
}
