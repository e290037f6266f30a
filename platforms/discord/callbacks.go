package discord

import (
	"context"
	"maps"
	"net/url"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
)

const (
	// ackBudget bounds the call-back to an interaction: after three seconds Discord gives the interaction up.
	ackBudget = 2500 * time.Millisecond
	// ackTry bounds the first of the call-back's two attempts, so that there is time for the second.
	ackTry = 1500 * time.Millisecond
)

// callback is the first answer to an interaction.
type callback struct {
	Type discordgo.InteractionResponseType `json:"type"`
	Data any                               `json:"data,omitempty"`
}

// acknowledge tells Discord that the interaction arrived: for a command or a form the person then sees that the bot is
// thinking, for a press nothing. If the first attempt gets no answer, acknowledge tries once more. An interaction that
// becomes no event gets its final answer.
func (h *hooks) acknowledge(ctx context.Context, i *interaction) error {
	ctx, cancel := context.WithTimeout(ctx, ackBudget)
	defer cancel()
	try := func(ctx context.Context) error {
		endpoint := discordgo.EndpointInteractionResponse(i.ID.String(), url.PathEscape(i.token.RevealString()))
		return h.rest.CallBack(ctx, endpoint, callbackTo(i))
	}
	first, stop := context.WithTimeout(ctx, ackTry)
	err := try(first)
	stop()
	if err == nil || ctx.Err() != nil || httpcall.FaultOf(err).Status != 0 {
		return err
	}
	if err = try(ctx); refusedWith(err, discordgo.ErrCodeInteractionHasAlreadyBeenAcknowledged) { // the first attempt did arrive
		return nil
	}
	return err
}

// callbackTo returns the call-back that acknowledges an interaction.
func callbackTo(i *interaction) callback {
	switch {
	case i.Kind == discordgo.InteractionApplicationCommandAutocomplete:
		return callback{discordgo.InteractionApplicationCommandAutocompleteResult, map[string]any{"choices": []any{}}}
	case i.Kind == discordgo.InteractionMessageComponent:
		return callback{Type: discordgo.InteractionResponseDeferredMessageUpdate}
	case !i.wanted():
		return whisper("I cannot be used here.")
	}
	return callback{Type: discordgo.InteractionResponseDeferredChannelMessageWithSource}
}

// whisper returns a final answer that only the person sees who used the bot.
func whisper(text string) callback {
	return callback{discordgo.InteractionResponseChannelMessageWithSource, map[string]any{
		"content": text, "flags": int(discordgo.MessageFlagsEphemeral),
	}}
}

const (
	// webhookLag is how long after a call-back a 404 may mean that Discord does not know the interaction's web hook
	// yet.
	webhookLag = 3 * time.Second
	// lagTry is the pause before another try after such a 404.
	lagTry = 500 * time.Millisecond
)

// callbacks knows the call-backs under way: until an interaction's call-back ends, Discord answers 404 to uses of its
// token. Methods may be called from any goroutine.
type callbacks struct {
	mu sync.Mutex      // guards the field below
	by map[string]*ack // by the interaction's id
}

// ack is one call-back.
type ack struct {
	over    chan struct{} // closed at the end of the call-back; then the fields below are final
	at      time.Time     // when the call-back ended
	refused bool          // Discord refused the call-back, so its token stays useless
}

// fresh reports whether Discord may not know the interaction's web hook yet.
func (a *ack) fresh() bool {
	select {
	case <-a.over:
		return time.Since(a.at) < webhookLag
	default:
		return true
	}
}

func newCallbacks() *callbacks { return &callbacks{by: make(map[string]*ack)} }

// begin notes that an interaction's call-back begins, and forgets old ones. It must be called before the interaction's
// event is handed in. The caller calls end once, with the result.
func (c *callbacks) begin(interaction string) (end func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.by, func(_ string, a *ack) bool { return !a.fresh() })
	a := &ack{over: make(chan struct{})}
	c.by[interaction] = a
	return func(err error) {
		f := httpcall.FaultOf(err)
		a.at, a.refused = time.Now(), f.Sent == httpcall.Refused && f.Code != discordgo.ErrCodeInteractionHasAlreadyBeenAcknowledged
		close(a.over)
	}
}

func (c *callbacks) of(interaction string) *ack {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[interaction]
}

// wait returns once no call-back of the interaction is under way. refused: Discord refused the call-back, and so has no
// web hook for the interaction.
func (c *callbacks) wait(ctx context.Context, interaction string) (refused bool, err error) {
	a := c.of(interaction)
	if a == nil {
		return false, nil
	}
	select {
	case <-a.over:
		return a.refused, nil
	case <-ctx.Done():
		return false, sender.NotSentIn(ctx)
	}
}

// fresh reports whether a 404 to the interaction's token may mean that Discord does not know the token yet.
func (c *callbacks) fresh(interaction string) bool {
	a := c.of(interaction)
	return a != nil && a.fresh()
}
