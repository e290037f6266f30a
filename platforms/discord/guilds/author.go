package guilds

import (
	"context"
	"errors"
	"fmt"

	"github.com/bwmarrin/discordgo"

	"github.com/hermes-connector/hermes-connector/relay"
)

// IsOwn implements platforms.AuthorTeller: whether the bot wrote a message, which Discord tells.
func (c *Guilds) IsOwn(ctx context.Context, chat relay.ChatID, message relay.MessageID) (bool, error) {
	where, err := ParseID(string(chat))
	id, err2 := ParseID(string(message))
	if err := errors.Join(err, err2); err != nil {
		return false, fmt.Errorf("look up a message: %w", err)
	}
	var m struct {
		Author *User `json:"author"`
	}
	if err := c.ask(ctx, discordgo.EndpointChannelMessage(where.String(), id.String()), &m); err != nil {
		return false, fmt.Errorf("look up a message: %w", err)
	}
	if m.Author == nil {
		return false, errors.New("look up a message: it has no author")
	}
	return m.Author.ID == c.me, nil
}
