package cli

import (
	"cmp"
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
	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store"
)

func newLinkCmd(a *app) *cobra.Command {
	c := command(a, ops.Link, "Make a one-time code that links a person to a gateway, or link them right away")
	c.Long = `Makes a one-time code. Whoever sends it to the bot in a direct message is linked to the gateway: the gateway gets
what they write, and may write to them.

With --user a person is linked right away, without a code. With --commands the gateway gets only these commands of
theirs, also in chats whose other messages go to another gateway.`
	c.Example = "  hermes-connector link home\n  hermes-connector link home --user telegram:4242\n" +
		"  hermes-connector link tools --user telegram:4242 --commands /add,/backup"
	a.maker(c.Command)
	commands := c.Flags().StringSlice("commands", nil, "only `COMMANDS`, such as /add,/backup, in place of what they were linked for before")
	args := func(pos []string) (manage.LinkFor, error) {
		return manage.LinkFor{Name: pos[0], Commands: *commands}, nil
	}
	direct := person(a, c.Command, ops.Bind, c.asJSON, "now reach", func(b *manage.Bind) { b.Commands = *commands })
	c.asking(args, func(w io.Writer, _ manage.LinkFor, l manage.Link) {
		_, _ = fmt.Fprintf(w, "Send this to the bot in a direct message, before %s:\n\n  /link %s\n", clock(l.ExpiresAt), l.Code)
		for _, p := range l.Bang {
			_, _ = fmt.Fprintf(w, "\nor, on %s:\n\n  !link %s\n", p, l.Code)
		}
		for _, p := range slices.Sorted(maps.Keys(l.DeepLinks)) {
			_, _ = fmt.Fprintf(w, "\nor open, or scan with a phone (%s):\n\n  %s\n\n", p, terminal.Plain(l.DeepLinks[p]))
			_, _ = fmt.Fprint(w, qr.Blocks(l.DeepLinks[p])) // empty if the link is too long for a QR code
		}
	})
	code := c.RunE
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		if cmd.Flags().Changed("user") || len(pos) > 1 {
			return direct(cmd, pos)
		}
		return code(cmd, pos)
	}
	return c.Command
}

func newUnlinkCmd(a *app) *cobra.Command {
	c := command(a, ops.Unbind, "Unlink a person from a gateway")
	c.Long = "Unlinks a person. With --forget, explain no longer shows what they wrote to the gateway, nor its answers. They need not\n" +
		"be linked for that. What the gateway itself keeps stays there."
	c.Example = "  hermes-connector unlink home --user telegram:4242\n  hermes-connector unlink home --user telegram:4242 --forget"
	forget := c.Flags().Bool("forget", false, "also take their messages out of what explain shows")
	c.RunE = person(a, c.Command, c.op, c.asJSON, "no longer reach", func(b *manage.Bind) { b.Forget = *forget })
	return c.Command
}

func newPeopleDirectCmd(a *app) *cobra.Command {
	c := command(a, ops.SetDMDefault, "Choose which gateway gets a person's direct messages")
	c.Long = "Sends a person's direct messages to this gateway, of several that they are linked to."
	c.Example = "  hermes-connector people direct home --user telegram:4242"
	c.RunE = person(a, c.Command, c.op, c.asJSON, "written directly now reach")
	return c.Command
}

// person gives c the flag that names a person. It returns a function that carries out op for that person; also puts the
// values of other flags into the request. The former commands name the person in two arguments.
func person(a *app, c *cobra.Command, op ops.Op[manage.Bind, manage.Binding], asJSON *bool, done string, also ...func(*manage.Bind)) func(*cobra.Command, []string) error {
	who := c.Flags().String("user", "", "the person, as `PLATFORM:PERSON`, such as telegram:4242 or telegram:@ann")
	_ = c.RegisterFlagCompletionFunc("user", func(*cobra.Command, []string, string) (all []string, _ cobra.ShellCompDirective) {
		for _, name := range platformNames(networks()) {
			all = append(all, name+":")
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	return func(cmd *cobra.Command, pos []string) error {
		b := manage.Bind{Name: pos[0]}
		if len(pos) == 3 {
			b.Platform, b.User = relay.PlatformID(pos[1]), relay.UserID(pos[2])
		} else if *who == "" {
			return usageError{fmt.Errorf("the person is missing: %s %s --user PLATFORM:PERSON", cmd.CommandPath(), pos[0])}
		} else {
			p, err := personOf("--user", *who)
			if err != nil {
				return err
			}
			b.Platform, b.User = p.Platform, p.User
		}
		for _, set := range also {
			set(&b)
		}
		return show(cmd.Context(), a, op, b, *asJSON, func(w io.Writer, out manage.Binding) {
			if to := out.DirectTo; len(out.Commands) > 0 {
				_, _ = fmt.Fprintf(w, "✓ %s of %s %s %s\n", terminal.Plain(strings.Join(out.Commands, ", ")), personShown(out.Platform, out.User, out.Person), done, nameOr(out.Gateway, out.Instance))
			} else if to != "" && to != out.Instance {
				_, _ = fmt.Fprintf(w, "✓ %s is linked to %s, but direct messages still go to %s\n", personShown(out.Platform, out.User, out.Person), nameOr(out.Gateway, out.Instance), nameOr(out.DirectName, to))
				_, _ = fmt.Fprintf(w, "  To change that: %s\n", words.Line(ops.SetDMDefault.Row, string(out.Instance), string(out.Platform), string(out.User)))
			} else {
				_, _ = fmt.Fprintf(w, "✓ messages of %s %s %s\n", personShown(out.Platform, out.User, out.Person), done, nameOr(out.Gateway, out.Instance))
			}
			if b.Forget {
				_, _ = fmt.Fprintln(w, "✓ explain no longer shows them")
			}
			warn(w, out.Warnings)
		})
	}
}

// nameOr returns the name that a gateway was given, or else its id.
func nameOr[ID ~string](name string, id ID) string { return terminal.Plain(cmp.Or(name, string(id))) }

// personShown returns a person with their name, where one is known.
func personShown(p relay.PlatformID, u relay.UserID, name string) string {
	return terminal.Plain(withName(name, string(p)+" person "+string(u)))
}

// withName returns name with id in brackets behind it; if name is empty it returns id alone.
func withName(name, id string) string {
	if name == "" {
		return id
	}
	return name + " (" + id + ")"
}

func newPeopleNameCmd(a *app) *cobra.Command {
	c := command(a, ops.NamePerson, "Give a linked person a name; without one, show what their network calls them again")
	c.Long = `Says what a linked person is called, here and for all gateways they are linked to. Without a name
of yours they have the one that their network tells, which is brought up to date when they write.
PERSON is their id, or @ and the name of their account.`
	c.Example = "  hermes-connector people name telegram:4242 Aunt Ann"
	args := func(pos []string) (manage.NamePerson, error) {
		p, err := personOf("people name", pos[0])
		return manage.NamePerson{Platform: p.Platform, User: p.User, Name: strings.Join(pos[1:], " ")}, err
	}
	return c.asking(args, func(w io.Writer, _ manage.NamePerson, n manage.NamedPerson) {
		if n.Person == "" {
			_, _ = fmt.Fprintf(w, "✓ %s has no name now: the network has told none\n", personShown(n.Platform, n.User, ""))
			return
		}
		_, _ = fmt.Fprintf(w, "✓ %s is called %s\n", personShown(n.Platform, n.User, ""), terminal.Plain(n.Person))
	})
}

// personOf reads a person, written as PLATFORM:PERSON. flag names the flag or the command in the error.
func personOf(flag, raw string) (p store.Person, err error) {
	platform, user, ok := strings.Cut(raw, ":")
	if !ok || platform == "" || user == "" {
		return p, usageError{fmt.Errorf("%s wants PLATFORM:PERSON, such as telegram:4242 or telegram:@ann, not %q", flag, raw)}
	}
	return store.Person{Platform: relay.PlatformID(platform), User: relay.UserID(user)}, nil
}

func newPeopleCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "list [NAME]", Short: "List who is linked to which gateway", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.complete([]string{"NAME"})}
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		all, err := a.people(cmd.Context(), pos)
		if err != nil {
			return err
		}
		return a.print(*asJSON, all, func(w io.Writer) {
			head := []any{"PLATFORM", "PERSON", "NAME", "GATEWAY", "TENANT", "SINCE", "DIRECT MESSAGES"}
			list(a, w, all, "Nobody is linked. Next: hermes-connector link NAME", head, func(p manage.Binding) []any {
				direct := "yes"
				if len(p.Commands) > 0 {
					direct = "only " + strings.Join(p.Commands, ", ")
				} else if p.DirectTo != p.Instance {
					direct = "go to " + nameOr(p.DirectName, p.DirectTo)
				}
				return []any{p.Platform, p.User, p.Person, nameOr(p.Gateway, p.Instance), p.Tenant, p.BoundAt.Local().Format(time.DateOnly), direct}
			})
		})
	}
	return group("people", "Show whose messages go where, name them, and change it", c, newPeopleNameCmd(a), newPeopleDirectCmd(a))
}

// instances returns the name of one gateway for each instance, since all gateways of an instance have the same people,
// chats and messages.
func (a *app) instances(ctx context.Context) (names []string, err error) {
	gateways, err := ask(ctx, a, ops.Gateways, struct{}{})
	var asked []relay.InstanceID
	for _, g := range gateways {
		if g.State != manage.Revoked && !slices.Contains(asked, g.Instance) {
			asked, names = append(asked, g.Instance), append(names, string(g.ID))
		}
	}
	return names, err
}

// people returns the people who are linked to the named gateways, or to any.
func (a *app) people(ctx context.Context, names []string) ([]manage.Binding, error) {
	all := []manage.Binding{}
	if len(names) == 0 {
		var err error
		if names, err = a.instances(ctx); err != nil {
			return nil, err
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

func newGatewayAccessCmd(a *app) *cobra.Command {
	c := command(a, ops.SetPrincipal, "Show or set who may talk to a gateway in its group chats")
	c.Long = `Shows or sets who may talk to a gateway in the group chats that it has (hermes-connector chat list):

  owner-only   the people who are linked to it
  allow-list   the same, and the people named with --allow
  any          everybody in the chat`
	c.Example = "  hermes-connector gateway access home\n" +
		"  hermes-connector gateway access home allow-list --allow telegram:4242 --allow telegram:4343"
	allow := c.Flags().StringArray("allow", nil, "also listen to `PLATFORM:PERSON`; may be repeated; replaces the former list")
	args := func(pos []string) (manage.SetPrincipal, error) {
		p := manage.SetPrincipal{Name: pos[0]}
		if len(pos) == 2 {
			p.Policy = relay.PrincipalPolicy(pos[1])
		}
		for _, raw := range *allow {
			person, err := personOf("--allow", raw)
			if err != nil {
				return p, err
			}
			p.Allow = append(p.Allow, person)
		}
		return p, nil
	}
	return c.asking(args, func(w io.Writer, set manage.SetPrincipal, p manage.Principal) {
		verb := "listens"
		if set.Policy != "" {
			verb = "now listens"
		}
		_, _ = fmt.Fprintf(w, "✓ %s %s in its group chats to: %s (%s)\n", terminal.Plain(set.Name), verb, terminal.Plain(heard(p)), p.Policy)
		warn(w, p.Warnings)
	})
}

// heard returns a phrase for the people to whom a gateway listens in its group chats.
func heard(p manage.Principal) string {
	switch p.Policy {
	case relay.AnyOne:
		return "anyone"
	case relay.AllowList:
		all := "linked people"
		for _, a := range p.Allow {
			all += ", " + string(a.Platform) + ":" + string(a.User)
		}
		return all
	}
	return "linked people only"
}

func newGatewayPolicyCmd(a *app) *cobra.Command {
	c := command(a, ops.SetRelevance, "Show or set which messages of group chats reach a gateway")
	c.Example = "  hermes-connector gateway policy home --platform telegram --require-address=false\n" +
		"  hermes-connector gateway policy home --platform telegram --free -100123 --owner-must-address"
	f := c.Flags()
	platform := f.String("platform", "", "the `PLATFORM` to show or set it for")
	requireAddress := f.Bool("require-address", true, "deliver only messages that mention the bot, reply to it or are a command")
	free := f.StringArray("free", nil, "deliver all messages of `CHAT`, addressed to the bot or not; may be repeated; replaces the former list (--free= empties it)")
	allowBots := f.Bool("allow-bots", false, "deliver messages of other bots too")
	ownerMust := f.Bool("owner-must-address", false, "linked people must address the bot, too")
	context := f.String("context", "granted", "which messages come with the earlier lines of their chat: off, granted (in the gateway's own chats) or all (also where linked people write)")
	args := func(pos []string) (manage.SetRelevance, error) {
		p := manage.SetRelevance{Name: pos[0], Platform: relay.PlatformID(*platform)}
		if *platform == "" {
			return p, usageError{errors.New("the platform is missing: --platform PLATFORM")}
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
	return c.asking(args, func(w io.Writer, p manage.SetRelevance, r manage.Relevance) {
		table(w, [][]any{
			{p.Name, "on " + string(r.Platform)},
			{"  must be addressed", r.RequireAddress},
			{"  but not in", join(r.Free)},
			{"  listens to other bots", r.AllowBots},
			{"  linked people must address it, too", r.OwnerMustAddress},
			{"  gets earlier lines of the chat", r.Context},
		})
		warn(w, r.Warnings)
	})
}

// policyLine describes, in one line, which messages of a platform's group chats reach a gateway.
func policyLine(r manage.Relevance) string {
	out := string(r.Platform) + ": all messages"
	if r.RequireAddress {
		out = string(r.Platform) + ": messages to the bot"
		if len(r.Free) > 0 {
			out += ", and all of " + join(r.Free)
		}
	}
	if r.AllowBots {
		out += "; other bots too"
	}
	if r.OwnerMustAddress {
		out += "; linked people must address it too"
	}
	return out + "; context " + string(r.Context)
}
