package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

// learnCommands stores the manifest of a hello, if there is one, and shows the union of all to people: also the
// commands of a gateway that is away.
func (h *Hub) learnCommands(ctx context.Context, i relay.InstanceID, f wire.Hello) error {
	here := func(p platforms.Platform) bool { return p.Bot().Platform == f.Platform }
	if len(f.Manifest) == 0 || !slices.ContainsFunc(h.Bots(), here) {
		return nil // a gateway could make up networks without end
	}
	if err := h.db.Commands.Set(ctx, i, f.Platform, f.Manifest); err != nil {
		return err
	}
	return h.showCommands(ctx, f.Platform)
}

// showCommands hands the union of all instances' commands to the bots of the platform; empty: of every one. If some
// bots are named, others are left alone.
func (h *Hub) showCommands(ctx context.Context, platform relay.PlatformID, only ...platforms.Platform) error {
	if only == nil {
		only = h.Bots()
	}
	for _, p := range only {
		r, ok := p.(platforms.CommandRegistrar)
		if !ok || platform != "" && p.Bot().Platform != platform {
			continue
		}
		all, err := h.db.Commands.List(ctx, p.Bot().Platform)
		if err != nil {
			return err
		}
		r.SetCommands(unite(all))
	}
	return nil
}

// unite is the union by name. The instance enrolled first keeps its names and its places: no later one can take a
// command over, or push it off a network that takes only so many. What has no name is no command.
func unite(all []store.Manifest) []json.RawMessage {
	names := make(map[string]bool)
	out := []json.RawMessage{}
	for _, m := range all {
		for _, raw := range m.Commands {
			var c struct {
				Name string `json:"name"`
			}
			if json.Unmarshal(raw, &c) != nil || c.Name == "" || names[c.Name] {
				continue
			}
			names[c.Name] = true
			out = append(out, raw)
		}
	}
	return out
}

// Chats are the places where a grant or a conversation says that events matter to somebody.
func (in *inbox) Chats(ctx context.Context) ([]relay.Place, error) {
	var out []relay.Place
	added := make(map[relay.Place]bool)
	add := func(p relay.Place) {
		if (p.Chat != "" || p.Scope != "") && !added[p] { // a scope without a chat: all of it
			added[p] = true
			out = append(out, p)
		}
	}
	grants, err := in.hub.db.Grants(ctx, store.GrantFilter{Platform: in.bot.Platform})
	if err != nil {
		return nil, fmt.Errorf("chats of %s: %w", in.bot, err)
	}
	for _, g := range grants {
		add(relay.Place{Platform: g.Platform, Scope: g.Scope, Chat: g.Chat})
	}
	talks, err := in.hub.db.Conversations(ctx, store.ConversationFilter{})
	if err != nil {
		return nil, fmt.Errorf("chats of %s: %w", in.bot, err)
	}
	for _, c := range talks {
		if c.Bot == in.bot {
			add(relay.Place{Platform: c.Bot.Platform, Scope: c.Scope, Chat: c.Chat, Parent: c.Parent})
		}
	}
	return out, nil
}

// Seen reports which events are known; see platforms.Directory.
func (in *inbox) Seen(ctx context.Context, events []relay.EventID) ([]bool, error) {
	out := make([]bool, len(events))
	for i, ev := range events {
		seen, err := in.hub.db.Seen.Has(ctx, in.bot, ev)
		if err != nil {
			return nil, fmt.Errorf("events of %s: %w", in.bot, err)
		}
		out[i] = seen
	}
	return out, nil
}

var _ platforms.Directory = (*inbox)(nil)
