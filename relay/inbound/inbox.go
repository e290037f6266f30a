package inbound

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// inbox is the platforms.Inbox of one bot.
type inbox struct {
	in  *Inbound
	bot relay.Bot
}

var _ platforms.Inbox = (*inbox)(nil)

// Inbox returns the inbox to which the bot gives its events.
func (in *Inbound) Inbox(b relay.Bot) platforms.Inbox { return &inbox{in: in, bot: b} }

// Cursor returns the cursor of the bot's last accepted batch that had one.
func (x *inbox) Cursor(ctx context.Context) ([]byte, error) {
	return x.in.db.Cursor(ctx, x.bot)
}

// Chats returns the places where a grant or a conversation says that events matter to somebody.
func (x *inbox) Chats(ctx context.Context) ([]relay.Place, error) {
	var out []relay.Place
	added := make(map[relay.Place]bool)
	add := func(p relay.Place) {
		if (p.Chat != "" || p.Scope != "") && !added[p] { // a scope without a chat means all of it
			added[p] = true
			out = append(out, p)
		}
	}
	grants, err := x.in.db.Grants(ctx, store.GrantFilter{Platform: x.bot.Platform})
	if err != nil {
		return nil, fmt.Errorf("chats of %s: %w", x.bot, err)
	}
	for _, g := range grants {
		add(relay.Place{Platform: g.Platform, Scope: g.Scope, Chat: g.Chat})
	}
	talks, err := x.in.db.Conversations(ctx, store.ConversationFilter{})
	if err != nil {
		return nil, fmt.Errorf("chats of %s: %w", x.bot, err)
	}
	for _, c := range talks {
		if c.Bot == x.bot {
			add(relay.Place{Platform: c.Bot.Platform, Scope: c.Scope, Chat: c.Chat, Parent: c.Parent})
		}
	}
	return out, nil
}

// Seen reports for each event whether it was stored in the last days (platforms.Directory).
func (x *inbox) Seen(ctx context.Context, events []relay.EventID) ([]bool, error) {
	out := make([]bool, len(events))
	for i, ev := range events {
		seen, err := x.in.db.Seen.Has(ctx, x.bot, ev)
		if err != nil {
			return nil, fmt.Errorf("events of %s: %w", x.bot, err)
		}
		out[i] = seen
	}
	return out, nil
}

// Linked reports whether the user's messages on the bot's platform go to an instance (platforms.People).
func (x *inbox) Linked(ctx context.Context, user relay.UserID) (bool, error) {
	some, err := x.in.facts.Bindings(ctx, store.BindingFilter{Platform: x.bot.Platform, User: user})
	return len(some) > 0, err
}

var (
	_ platforms.Directory = (*inbox)(nil)
	_ platforms.People    = (*inbox)(nil)
)
