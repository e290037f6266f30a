package discord

import (
	"context"
	"errors"
	"fmt"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// isOwn reports whether the bot wrote a message, which Discord tells.
func (f finder) isOwn(ctx context.Context, chat relay.ChatID, message relay.MessageID, bot relay.BotID) (bool, error) {
	if !rest.IsID(string(chat)) || !rest.IsID(string(message)) {
		return false, errUnknownMessage
	}
	var m messageData
	if err := f.ask(ctx, discordgo.EndpointChannelMessage(string(chat), string(message)), &m); err != nil {
		return false, fmt.Errorf("look up a message: %w", err)
	}
	if m.Author == nil {
		return false, errors.New("look up a message: it has no author")
	}
	return m.Author.ID.String() == string(bot), nil
}

// IsOwn implements platforms.AuthorTeller.
func (p *Platform) IsOwn(ctx context.Context, chat relay.ChatID, message relay.MessageID) (bool, error) {
	return p.reader.isOwn(ctx, chat, message, p.Bot().ID)
}
