package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

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
		who := person(out.Platform, out.User, out.Person)
		if to := out.DirectTo; to != "" && to != out.Instance {
			_, _ = fmt.Fprintf(w, "✓ %s is linked to %s, but direct messages still go to %s\n", who, terminal.Plain(out.Gateway), terminal.Plain(out.DirectName))
			_, _ = fmt.Fprintf(w, "  To change that: hermes-connector dm-default %s %s %s\n", out.Instance, out.Platform, out.User)
		} else {
			_, _ = fmt.Fprintf(w, "✓ messages of %s %s %s\n", who, done, terminal.Plain(out.Gateway))
		}
		warn(w, out.Warnings)
	})
}

// person is a person with their name, where one is known.
func person(p relay.PlatformID, u relay.UserID, name string) string {
	who := string(p) + " person " + string(u)
	if name != "" {
		who = name + " (" + who + ")"
	}
	return terminal.Plain(who)
}

func (a *app) peopleName() *cobra.Command {
	c := command(a, ops.NamePerson, "Give a linked person a name; without one, show what their network calls them again")
	c.Long = `Says what a linked person is called, here and for all gateways they are linked to. Without a name
of yours they have the one that their network tells, which is brought up to date when they write.
PERSON is their id, or @ and the name of their account.`
	c.Example = "  hermes-connector people name telegram 4242 Aunt Ann"
	args := func(pos []string) (manage.NamePerson, error) {
		return manage.NamePerson{Platform: relay.PlatformID(pos[0]), User: relay.UserID(pos[1]), Name: strings.Join(pos[2:], " ")}, nil
	}
	return c.asking(args, func(w io.Writer, _ manage.NamePerson, n manage.NamedPerson) {
		if n.Person == "" {
			_, _ = fmt.Fprintf(w, "✓ %s has no name now: the network has told none\n", person(n.Platform, n.User, ""))
			return
		}
		_, _ = fmt.Fprintf(w, "✓ %s is called %s\n", person(n.Platform, n.User, ""), terminal.Plain(n.Person))
	})
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
