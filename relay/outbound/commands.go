package outbound

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Commands shows people the commands that gateways offer. Its methods may be called from any goroutine.
type Commands struct {
	db   *store.DB
	bots Bots
}

// Learn stores the manifest of a hello, if it has one, and shows the union of all manifests to people: also the
// commands of a gateway that is away. The newest gateways declare theirs for Discord alone; bots of other networks that
// need commands learn them from there.
func (cs *Commands) Learn(ctx context.Context, i relay.InstanceID, on relay.PlatformID, manifest []json.RawMessage) error {
	// here reports whether p shows or needs the commands that the manifest declares.
	here := func(p platforms.Bot) bool {
		_, knows := p.(platforms.CommandKnower)
		return p.ID().Platform == on || knows && on == declaredFor
	}
	if len(manifest) == 0 || !slices.ContainsFunc(cs.bots.Bots(), here) {
		return nil // without a bot to show them nothing is stored: a gateway could make up any number of networks
	}
	if err := cs.db.Commands.Set(ctx, i, on, manifest); err != nil {
		return err
	}
	return cs.Show(ctx, on)
}

// declaredFor is the platform in whose hello gateways send a manifest.
const declaredFor relay.PlatformID = "discord"

// Show gives the union of all instances' commands to the bots of the platform, and the names of all commands to the
// bots that need them; an empty platform means every one. If some bots are named, others are left alone.
func (cs *Commands) Show(ctx context.Context, platform relay.PlatformID, only ...platforms.Bot) error {
	if only == nil {
		only = cs.bots.Bots()
	}
	for _, p := range only {
		if k, ok := p.(platforms.CommandKnower); ok {
			all, err := cs.db.Commands.List(ctx, "")
			if err != nil {
				return err
			}
			k.KnowCommands(namesIn(all))
		}
		r, ok := p.(platforms.CommandRegistrar)
		if !ok || platform != "" && p.ID().Platform != platform {
			continue
		}
		all, err := cs.db.Commands.List(ctx, p.ID().Platform)
		if err != nil {
			return err
		}
		r.SetCommands(unite(all))
	}
	return nil
}

// unite returns the union by name. The instance enrolled first keeps its names and its places: no later one can take a
// command over, or push it off a network that accepts only so many. A command without a name is ignored.
func unite(all []store.Manifest) []json.RawMessage {
	names := make(map[string]bool)
	out := []json.RawMessage{}
	for _, m := range all {
		for _, raw := range m.Commands {
			if name := nameOf(raw); name != "" && !names[name] {
				names[name] = true
				out = append(out, raw)
			}
		}
	}
	return out
}

// namesIn returns the names of all commands.
func namesIn(all []store.Manifest) (out []string) {
	for _, raw := range unite(all) {
		out = append(out, nameOf(raw))
	}
	return out
}

// nameOf returns a command's name; empty: it has none.
func nameOf(raw json.RawMessage) string {
	var c struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(raw, &c) != nil {
		return ""
	}
	return c.Name
}
