package discord

import (
	"context"
	"net/url"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/call"
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
