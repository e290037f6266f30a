package discord

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/bwmarrin/discordgo"
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
// that the bot is thinking, for a press nothing. It passes no limiter, which Discord asks of nobody
// here, and has connections of its own, so that nothing can be in its way. If the connection breaks
// it is tried once more. What makes no event is answered for good, because nobody else will.
func (p *Platform) acknowledge(ctx context.Context, i *interaction) error {
	ctx, cancel := context.WithTimeout(ctx, ackBudget)
	defer cancel()
	path := "/interactions/" + i.id.String() + "/" + url.PathEscape(i.token.RevealString()) + "/callback"
	try := func(ctx context.Context) error {
		err := p.rest.roundTrip(ctx, p.acks, http.MethodPost, routeOf(http.MethodPost, path), path, callbackTo(i), nil)
		hideToken(err, path)
		return err
	}
	first, stop := context.WithTimeout(ctx, ackTry)
	err := try(first)
	stop()
	var ae *apiError
	if err == nil || ctx.Err() != nil || !errors.As(err, &ae) || ae.Status != 0 {
		return err
	}
	if err = try(ctx); refusedWith(err, codeAcknowledged) { // the first attempt did arrive
		return nil
	}
	return err
}

// callbackTo is what an interaction is answered with.
func callbackTo(i *interaction) callback {
	switch {
	case i.kind == int(discordgo.InteractionApplicationCommandAutocomplete):
		return callback{discordgo.InteractionApplicationCommandAutocompleteResult, map[string]any{"choices": []any{}}}
	case i.kind == interactionComponent:
		return callback{Type: discordgo.InteractionResponseDeferredMessageUpdate}
	case !i.wanted():
		return callback{discordgo.InteractionResponseChannelMessageWithSource, map[string]any{
			"content": "I cannot be used here.", "flags": int(discordgo.MessageFlagsEphemeral),
		}}
	}
	return callback{Type: discordgo.InteractionResponseDeferredChannelMessageWithSource}
}
