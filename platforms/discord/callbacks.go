package discord

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/call"
	"github.com/hermes-connector/hermes-connector/platforms/turn"
)

const (
	// ackBudget bounds the answer to an interaction: after three seconds Discord has given up on it.
	ackBudget = 2500 * time.Millisecond
	// ackTry bounds the first of its two attempts, so that there is time for the second.
	ackTry = 1500 * time.Millisecond
)

// callback is the first answer to an interaction.
type callback struct {
	Type discordgo.InteractionResponseType `json:"type"`
	Data any                               `json:"data,omitempty"`
}

// acknowledge tells Discord that the interaction arrived: for a command or a form the person sees
// that the bot is thinking, for a press nothing. If the connection breaks it is tried once more. What makes no event is answered for good, because nobody else will.
func (p *Platform) acknowledge(ctx context.Context, i *interaction) error {
	ctx, cancel := context.WithTimeout(ctx, ackBudget)
	defer cancel()
	try := func(ctx context.Context) error {
		endpoint := discordgo.EndpointInteractionResponse(i.id.String(), url.PathEscape(i.token.RevealString()))
		return p.rest.CallBack(ctx, endpoint, callbackTo(i))
	}
	first, stop := context.WithTimeout(ctx, ackTry)
	err := try(first)
	stop()
	if err == nil || ctx.Err() != nil || call.FaultOf(err).Status != 0 {
		return err
	}
	if err = try(ctx); refusedWith(err, discordgo.ErrCodeInteractionHasAlreadyBeenAcknowledged) { // the first attempt did arrive
		return nil
	}
	return err
}

// callbackTo is what an interaction is answered with.
func callbackTo(i *interaction) callback {
	switch {
	case i.kind == int(discordgo.InteractionApplicationCommandAutocomplete):
		return callback{discordgo.InteractionApplicationCommandAutocompleteResult, map[string]any{"choices": []any{}}}
	case i.kind == int(discordgo.InteractionMessageComponent):
		return callback{Type: discordgo.InteractionResponseDeferredMessageUpdate}
	case !i.wanted():
		return callback{discordgo.InteractionResponseChannelMessageWithSource, map[string]any{
			"content": "I cannot be used here.", "flags": int(discordgo.MessageFlagsEphemeral),
		}}
	}
	return callback{Type: discordgo.InteractionResponseDeferredChannelMessageWithSource}
}

const (
	// webhookLag is how long after a call-back Discord may still not know the interaction's web hook:
	// a 404 within it says "not yet".
	webhookLag = 3 * time.Second
	// lagTry is the pause before such a 404 is tried again.
	lagTry = 500 * time.Millisecond
)

// callbacks knows which interactions' call-backs are under way: until one is over, Discord answers 404
// to whatever uses the interaction's token. Methods may be called from any goroutine.
type callbacks struct {
	mu    sync.Mutex // guards the fields below, and those of every ack
	by    map[string]*ack
	ended []*ack // in the order of their ends
}

// ack is one call-back.
type ack struct {
	id      string        // of the interaction
	over    chan struct{} // closed at its end
	at      time.Time     // when that was; zero before. Guarded by callbacks.mu
	refused bool          // for good. Guarded by callbacks.mu
}

func newCallbacks() *callbacks { return &callbacks{by: make(map[string]*ack)} }

// begin notes that an interaction's call-back is on its way. It must come before its event is. The
// caller calls end once, with what became of it.
func (c *callbacks) begin(interaction string) (end func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &ack{id: interaction, over: make(chan struct{})}
	c.by[interaction] = a
	return func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		f := call.FaultOf(err)
		a.at, a.refused = time.Now(), f.Sent == call.Refused && f.Code != discordgo.ErrCodeInteractionHasAlreadyBeenAcknowledged
		close(a.over)
		c.ended = append(c.ended, a)
		c.forgetLocked(a.at)
	}
}

// forgetLocked drops what is of no use any more. c.mu must be held.
func (c *callbacks) forgetLocked(now time.Time) {
	for len(c.ended) > 0 && now.Sub(c.ended[0].at) >= webhookLag {
		if a := c.ended[0]; c.by[a.id] == a { // else Discord sent the interaction again since
			delete(c.by, a.id)
		}
		c.ended = c.ended[1:]
	}
}

// wait returns once no call-back of the interaction is under way. It takes as long as acknowledge at
// most. refused: Discord did not take the call-back, and so knows no web hook of the interaction.
func (c *callbacks) wait(ctx context.Context, interaction string) (refused bool, err error) {
	c.mu.Lock()
	a := c.by[interaction]
	c.mu.Unlock()
	if a == nil {
		return false, nil
	}
	select {
	case <-a.over:
	case <-ctx.Done():
		return false, turn.NotSentIn(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return a.refused, nil
}

// fresh reports whether a 404 to the interaction's token may mean that Discord does not know it yet.
func (c *callbacks) fresh(interaction string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.by[interaction]
	return a != nil && time.Since(a.at) < webhookLag
}
