package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

// learnCommands stores the manifest of a hello, if it brought one that is new, and shows the union
// to people. It is stored because the commands of a gateway that is away stay on show.
func (h *Hub) learnCommands(ctx context.Context, i relay.InstanceID, f wire.Hello) error {
	if len(f.Manifest) == 0 {
		return nil
	}
	same := func(a, b json.RawMessage) bool { return string(a) == string(b) }
	have, err := h.db.Instance(ctx, i)
	if err != nil {
		return fmt.Errorf("commands of %s: %w", i, err)
	}
	if !slices.EqualFunc(have.Commands[f.Platform], f.Manifest, same) {
		if err := h.db.UpdateInstance(ctx, i, func(i *store.Instance) error {
			if i.Commands == nil {
				i.Commands = make(map[relay.PlatformID][]json.RawMessage)
			}
			i.Commands[f.Platform] = f.Manifest
			return nil
		}); err != nil {
			return fmt.Errorf("commands of %s: %w", i, err)
		}
	}
	return h.showCommands(ctx, f.Platform)
}

// showCommands hands the union of all instances' commands to the bots of the platform.
func (h *Hub) showCommands(ctx context.Context, platform relay.PlatformID) error {
	all, err := h.db.Instances(ctx)
	if err != nil {
		return fmt.Errorf("commands: %w", err)
	}
	union := unite(all, platform)
	for _, p := range h.bots {
		if r, ok := p.(platforms.CommandRegistrar); ok && p.Bot().Platform == platform {
			r.SetCommands(union)
		}
	}
	return nil
}

// unite is the union by name, in order of name; of two commands of one name, that of the instance
// whose id comes first. What has no name is no command.
func unite(all []store.Instance, platform relay.PlatformID) []json.RawMessage {
	type named struct {
		name string
		raw  json.RawMessage
	}
	var union []named
	for _, i := range all {
		for _, raw := range i.Commands[platform] {
			var c struct {
				Name string `json:"name"`
			}
			if json.Unmarshal(raw, &c) != nil || c.Name == "" ||
				slices.ContainsFunc(union, func(n named) bool { return n.name == c.Name }) {
				continue
			}
			union = append(union, named{c.Name, raw})
		}
	}
	slices.SortStableFunc(union, func(a, b named) int { return cmp.Compare(a.name, b.name) })
	out := make([]json.RawMessage, 0, len(union))
	for _, n := range union {
		out = append(out, n.raw)
	}
	return out
}

// Chats are the places where a grant or a conversation says that events matter to somebody.
func (in *inbox) Chats(ctx context.Context) ([]relay.Place, error) {
	var out []relay.Place
	add := func(p relay.Place) {
		if p.Chat != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	grants, err := in.hub.db.Grants(ctx)
	if err != nil {
		return nil, fmt.Errorf("chats of %s: %w", in.bot, err)
	}
	for _, g := range grants {
		if g.Platform == in.bot.Platform {
			add(relay.Place{Platform: g.Platform, Scope: g.Scope, Chat: g.Chat})
		}
	}
	instances, err := in.hub.db.Instances(ctx)
	if err != nil {
		return nil, fmt.Errorf("chats of %s: %w", in.bot, err)
	}
	for _, i := range instances {
		conversations, err := in.hub.db.ConversationsOf(ctx, i.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("chats of %s: %w", in.bot, err)
		}
		for _, c := range conversations {
			if c.Bot == in.bot {
				add(relay.Place{Platform: c.Bot.Platform, Scope: c.Scope, Chat: c.Chat, Parent: c.Parent})
			}
		}
	}
	return out, nil
}

var _ platforms.Directory = (*inbox)(nil)
