package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/skip2/go-qrcode"
	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

func newLinkCmd(a *app) *cobra.Command {
	return a.named("link", "A code that binds whoever sends it to the bot", func(c *cobra.Command, client *admin.Client, asJSON bool, n manage.Named) error {
		l, err := client.Link(c.Context(), manage.LinkFor{Name: n.Name})
		if err != nil {
			return err
		}
		return a.print(asJSON, l, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "Send this to the bot in a direct message, before %s:\n\n  /link %s\n", clock(l.ExpiresAt), l.Code)
			for _, p := range slices.Sorted(maps.Keys(l.DeepLinks)) {
				_, _ = fmt.Fprintf(w, "\nor open, or scan with a phone (%s):\n\n  %s\n\n", p, plain(l.DeepLinks[p]))
				if qr, err := qrcode.New(l.DeepLinks[p], qrcode.Low); err == nil { // too long for one: the link is enough
					_, _ = fmt.Fprint(w, qr.ToSmallString(false))
				}
			}
		})
	})
}

func newBindCmd(a *app) *cobra.Command {
	return a.binding("bind", "Send a person's messages to a gateway, without a code", "now reach",
		func(c *cobra.Command, client *admin.Client, b manage.Bind) (manage.Binding, error) {
			return client.Bind(c.Context(), b)
		})
}

func newUnbindCmd(a *app) *cobra.Command {
	return a.binding("unbind", "Undo bind, or a code that was used", "no longer reach",
		func(c *cobra.Command, client *admin.Client, b manage.Bind) (manage.Binding, error) {
			return client.Unbind(c.Context(), b)
		})
}

func newDMDefaultCmd(a *app) *cobra.Command {
	return a.binding("dm-default", "Of several gateways of a person, let this one get the direct messages", "written directly now reach",
		func(c *cobra.Command, client *admin.Client, b manage.Bind) (manage.Binding, error) {
			return client.SetDMDefault(c.Context(), b)
		})
}

func (a *app) binding(verb, short, done string, run func(*cobra.Command, *admin.Client, manage.Bind) (manage.Binding, error)) *cobra.Command {
	c := withIDs(&cobra.Command{
		Use: verb + " NAME PLATFORM USER", Short: short, Example: "  hermes-connector " + verb + " home telegram 4242",
		Args: cobra.ExactArgs(3), ValidArgsFunction: a.completeGateways,
	})
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		b := manage.Bind{Name: args[0], Platform: relay.PlatformID(args[1]), User: relay.UserID(args[2])}
		return a.withClient(cmd.Context(), func(client *admin.Client) error {
			out, err := run(cmd, client, b)
			if err != nil {
				return err
			}
			return a.print(*asJSON, out, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "✓ messages of %s user %s %s %s\n", out.Platform, out.User, done, out.Instance)
			})
		})
	}
	return c
}

func newPrincipalCmd(a *app) *cobra.Command {
	policies := []string{string(store.OwnerOnly), string(store.AllowList), string(store.AnyOne)}
	c := &cobra.Command{
		Use:     "principal NAME " + strings.Join(policies, "|"),
		Short:   "Say who may speak to a gateway in the chats it was granted",
		Example: "  hermes-connector principal home allow-list --allow telegram:4242 --allow telegram:4343",
		Args:    cobra.ExactArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return policies, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeGateways(cmd, args, typed)
		},
	}
	allow := c.Flags().StringArray("allow", nil, "`PLATFORM:USER` to admit; may be repeated; the list replaces the former one")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		p := manage.SetPrincipal{Name: args[0], Policy: store.PrincipalPolicy(args[1])}
		for _, raw := range *allow {
			platform, user, err := cut(raw)
			if err != nil {
				return err
			}
			p.Allow = append(p.Allow, store.Person{Platform: relay.PlatformID(platform), User: relay.UserID(user)})
		}
		return a.withClient(cmd.Context(), func(client *admin.Client) error {
			out, err := client.SetPrincipal(cmd.Context(), p)
			if err != nil {
				return err
			}
			return a.print(*asJSON, out, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "✓ in its granted chats %s now hears: %s\n", out.Instance, out.Policy)
			})
		})
	}
	return c
}

func newPolicyCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy NAME --platform PLATFORM",
		Short: "Say when to bother a gateway in shared chats; without changes, show it",
		Example: "  hermes-connector policy home --platform telegram --require-address=false\n" +
			"  hermes-connector policy home --platform telegram --free -100123 --owner-must-address",
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGateways,
	}
	f := c.Flags()
	platform := f.String("platform", "", "the `PLATFORM` it is about")
	requireAddress := f.Bool("require-address", true, "only messages that mention the bot, answer it or command it")
	free := f.StringArray("free", nil, "`CHAT` in which no address is needed; may be repeated; replaces the former list (--free= empties it)")
	allowBots := f.Bool("allow-bots", false, "messages of other bots too")
	ownerMust := f.Bool("owner-must-address", false, "the owner's own messages follow --require-address too")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if *platform == "" {
			return usageError{errors.New("a policy is about one platform: give --platform")}
		}
		p := manage.SetRelevance{Name: args[0], Platform: relay.PlatformID(*platform)}
		if f.Changed("require-address") {
			p.RequireAddress = requireAddress
		}
		if f.Changed("allow-bots") {
			p.AllowBots = allowBots
		}
		if f.Changed("owner-must-address") {
			p.OwnerMustAddress = ownerMust
		}
		if f.Changed("free") {
			chats := []relay.ChatID{}
			for _, chat := range *free {
				if chat != "" {
					chats = append(chats, relay.ChatID(chat))
				}
			}
			p.Free = &chats
		}
		return a.withClient(cmd.Context(), func(client *admin.Client) error {
			r, err := client.SetRelevance(cmd.Context(), p)
			if err != nil {
				return err
			}
			return a.print(*asJSON, r, func(w io.Writer) {
				chats := make([]string, len(r.Free))
				for i, chat := range r.Free {
					chats[i] = string(chat)
				}
				table(w, [][]string{
					{string(r.Instance), "on " + string(r.Platform)},
					{"  must be addressed", fmt.Sprint(r.RequireAddress)},
					{"  except in", dash(strings.Join(chats, ", "))},
					{"  hears other bots", fmt.Sprint(r.AllowBots)},
					{"  the owner too must address it", fmt.Sprint(r.OwnerMustAddress)},
				})
			})
		})
	}
	return c
}
