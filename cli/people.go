package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/qr"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store"
)

func newLinkCmd(a *app) *cobra.Command {
	args := func(pos []string) (manage.LinkFor, error) { return manage.LinkFor{Name: pos[0]}, nil }
	c := command(a, ops.Link, "Make a code that binds whoever sends it to the bot")
	a.maker(c.Command)
	return c.asking(args, func(w io.Writer, _ manage.LinkFor, l manage.Link) {
		_, _ = fmt.Fprintf(w, "Send this to the bot in a direct message, before %s:\n\n  /link %s\n", clock(l.ExpiresAt), l.Code)
		for _, p := range slices.Sorted(maps.Keys(l.DeepLinks)) {
			_, _ = fmt.Fprintf(w, "\nor open, or scan with a phone (%s):\n\n  %s\n\n", p, terminal.Plain(l.DeepLinks[p]))
			_, _ = fmt.Fprint(w, qr.Blocks(l.DeepLinks[p])) // too long for one: the link is enough
		}
	})
}

func (a *app) bindings() []*cobra.Command {
	return []*cobra.Command{
		a.maker(a.binding(ops.Bind, "Send a person's messages to a gateway, without a code", "now reach")),
		a.binding(ops.Unbind, "Undo bind, or the use of a code", "no longer reach"),
		a.binding(ops.SetDMDefault, "Let this gateway, of several that a person is bound to, get the direct messages", "written directly now reach"),
	}
}

func (a *app) binding(op ops.Op[manage.Bind, manage.Binding], short, done string) *cobra.Command {
	c := command(a, op, short)
	c.Example = "  hermes-connector " + c.Name() + " home telegram 4242"
	args := func(pos []string) (manage.Bind, error) {
		return manage.Bind{Name: pos[0], Platform: relay.PlatformID(pos[1]), User: relay.UserID(pos[2])}, nil
	}
	return c.asking(args, func(w io.Writer, _ manage.Bind, out manage.Binding) {
		if to := out.DirectTo; to != "" && to != out.Instance {
			_, _ = fmt.Fprintf(w, "✓ %s person %s is linked to %s, but direct messages still go to %s\n", out.Platform, out.User, out.Instance, to)
			_, _ = fmt.Fprintf(w, "  To change that: hermes-connector dm-default %s %s %s\n", out.Instance, out.Platform, out.User)
		} else {
			_, _ = fmt.Fprintf(w, "✓ messages of %s person %s %s %s\n", out.Platform, out.User, done, out.Instance)
		}
		warn(w, out.Warnings)
	})
}

func newPeopleCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "list [NAME]", Short: "List who is bound to which gateway", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.complete([]string{"NAME"})}
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		all, err := a.people(cmd.Context(), pos)
		if err != nil {
			return err
		}
		return a.print(*asJSON, all, func(w io.Writer) {
			if len(all) == 0 {
				a.say("Nobody is bound. Next: hermes-connector link NAME")
				return
			}
			rows := [][]any{{"PLATFORM", "PERSON", "GATEWAY", "TENANT", "SINCE", "DIRECT MESSAGES"}}
			for _, p := range all {
				direct := "yes"
				if p.DirectTo != p.Instance {
					direct = "go to " + string(p.DirectTo)
				}
				rows = append(rows, []any{p.Platform, p.User, p.Instance, p.Tenant, p.BoundAt.Local().Format(time.DateOnly), direct})
			}
			table(w, narrow(rows))
		})
	}
	return group("people", "See whose messages go where", c)
}

// people are who is bound to the named gateways, or to any.
func (a *app) people(ctx context.Context, names []string) ([]manage.Binding, error) {
	var asked []relay.InstanceID // gateways of one instance hold the same
	all := []manage.Binding{}
	if len(names) == 0 {
		gateways, err := ask(ctx, a, ops.Gateways, struct{}{})
		if err != nil {
			return nil, err
		}
		for _, g := range gateways {
			if g.State != manage.Revoked && !slices.Contains(asked, g.Instance) {
				asked, names = append(asked, g.Instance), append(names, string(g.ID))
			}
		}
	}
	for _, name := range names {
		g, err := ask(ctx, a, ops.Gateway, manage.Named{Name: name})
		if err != nil {
			return nil, err
		}
		if g.Holds != nil {
			all = append(all, g.Holds.People...)
		}
	}
	return all, nil
}

func newPrincipalCmd(a *app) *cobra.Command {
	c := command(a, ops.SetPrincipal, "Say who may speak to a gateway in the chats it was granted; without a policy, show who may")
	c.Example = "  hermes-connector principal home allow-list --allow telegram:4242 --allow telegram:4343"
	allow := c.Flags().StringArray("allow", nil, "`PLATFORM:PERSON` to admit; may be repeated; the list replaces the former one")
	args := func(pos []string) (manage.SetPrincipal, error) {
		p := manage.SetPrincipal{Name: pos[0]}
		if len(pos) == 2 {
			p.Policy = relay.PrincipalPolicy(pos[1])
		}
		for _, raw := range *allow {
			platform, user, ok := strings.Cut(raw, ":")
			if !ok || platform == "" || user == "" {
				return p, usageError{fmt.Errorf("%q: want PLATFORM:PERSON, such as telegram:4242", raw)}
			}
			p.Allow = append(p.Allow, store.Person{Platform: relay.PlatformID(platform), User: relay.UserID(user)})
		}
		return p, nil
	}
	return c.asking(args, func(w io.Writer, set manage.SetPrincipal, p manage.Principal) {
		verb := "hears"
		if set.Policy != "" {
			verb = "now hears"
		}
		_, _ = fmt.Fprintf(w, "✓ %s %s, in the chats it was granted: %s (%s)\n", p.Instance, verb, terminal.Plain(heard(p)), p.Policy)
		warn(w, p.Warnings)
	})
}

func newPolicyCmd(a *app) *cobra.Command {
	c := command(a, ops.SetRelevance, "Say which messages of shared chats reach a gateway; without changes, show the policy")
	c.Example = "  hermes-connector policy home --platform telegram --require-address=false\n" +
		"  hermes-connector policy home --platform telegram --free -100123 --owner-must-address"
	f := c.Flags()
	platform := f.String("platform", "", "the `PLATFORM` that the policy is about")
	requireAddress := f.Bool("require-address", true, "only messages that mention the bot, answer it or command it")
	free := f.StringArray("free", nil, "`CHAT` in which no address is needed; may be repeated; replaces the former list (--free= empties it)")
	allowBots := f.Bool("allow-bots", false, "messages of other bots too")
	ownerMust := f.Bool("owner-must-address", false, "the owner's own messages follow --require-address too")
	context := f.String("context", "granted", "which messages to the bot bring along what was said in the chat before: off, granted (in granted chats) or all (wherever the owner writes too)")
	args := func(pos []string) (manage.SetRelevance, error) {
		p := manage.SetRelevance{Name: pos[0], Platform: relay.PlatformID(*platform)}
		if *platform == "" {
			return p, usageError{errors.New("a policy is about one platform: give --platform")}
		}
		given := func(flag string, value *bool) *bool {
			if f.Changed(flag) {
				return value
			}
			return nil
		}
		p.RequireAddress = given("require-address", requireAddress)
		p.AllowBots = given("allow-bots", allowBots)
		p.OwnerMustAddress = given("owner-must-address", ownerMust)
		if f.Changed("context") {
			p.Context = new(relay.ContextPolicy(*context))
		}
		if f.Changed("free") {
			chats := []relay.ChatID{}
			for _, chat := range slices.DeleteFunc(*free, func(c string) bool { return c == "" }) {
				chats = append(chats, relay.ChatID(chat))
			}
			p.Free = &chats
		}
		return p, nil
	}
	return c.asking(args, func(w io.Writer, _ manage.SetRelevance, r manage.Relevance) {
		table(w, [][]any{
			{r.Instance, "on " + string(r.Platform)},
			{"  must be addressed", r.RequireAddress},
			{"  except in", join(r.Free)},
			{"  hears other bots", r.AllowBots},
			{"  the owner too must address it", r.OwnerMustAddress},
			{"  is told what was said before", r.Context},
		})
		warn(w, r.Warnings)
	})
}

// heard is whom a gateway hears in the chats it was granted.
func heard(p manage.Principal) string {
	switch p.Policy {
	case relay.AnyOne:
		return "anyone"
	case relay.AllowList:
		all := "its people"
		for _, a := range p.Allow {
			all += ", " + string(a.Platform) + ":" + string(a.User)
		}
		return all
	}
	return "its people only"
}

// policyLine is a policy in a line.
func policyLine(r manage.Relevance) string {
	out := string(r.Platform) + ": all messages of people"
	if r.RequireAddress {
		out = string(r.Platform) + ": what is addressed to the bot"
		if len(r.Free) > 0 {
			out += ", and all of " + join(r.Free)
		}
	}
	if r.AllowBots {
		out += "; other bots too"
	}
	if r.OwnerMustAddress {
		out += "; its people must address it too"
	}
	return out + "; context " + string(r.Context)
}
