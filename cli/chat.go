package cli

import (
	"bytes"
	"context"

	"github.com/hermes-connector/hermes-connector/cli/web"
	"github.com/hermes-connector/hermes-connector/cli/web/chat"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sniff"
	"github.com/hermes-connector/hermes-connector/store"
)

// chatSection returns the chat of the web pages, over the bot that openBots made for it.
func (c *core) chatSection() (sections []web.Section) {
	for _, p := range c.hub.Bots() {
		if bot, ok := p.(*local.Web); ok {
			sections = append(sections, chat.New(bot.Rooms(), c.service, chat.Options{
				// In the web chat of an instance the person's id is the instance's.
				Bound: func(ctx context.Context, i relay.InstanceID) (bool, error) {
					all, err := c.db.Bindings(ctx, store.BindingFilter{Platform: local.WebID, User: relay.UserID(i), Instance: i})
					return len(all) > 0, err
				},
				Facts: func(content []byte) relay.FileFacts { return sniff.Of(bytes.NewReader(content), int64(len(content))) },
			}))
		}
	}
	return sections
}
