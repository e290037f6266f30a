package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

func newScopeCmd(a *app) *cobra.Command {
	claim := a.scope("claim", "Grant a chat to a gateway", "now belongs to",
		func(c *cobra.Command, client *admin.Client, s manage.Scope) (manage.Grant, error) {
			return client.Claim(c.Context(), s)
		})
	release := a.scope("release", "Take a chat back", "no longer belongs to",
		func(c *cobra.Command, client *admin.Client, s manage.Scope) (manage.Grant, error) {
			return client.Release(c.Context(), s)
		})
	return group("scope", "Grant chats to gateways", claim, release, a.scopeList())
}

func (a *app) scope(verb, short, done string, run func(*cobra.Command, *admin.Client, manage.Scope) (manage.Grant, error)) *cobra.Command {
	c := withIDs(&cobra.Command{
		Use:     verb + " NAME PLATFORM CHAT",
		Short:   short,
		Long:    short + ". An empty CHAT (\"\") with --scope means all chats of that scope.",
		Example: "  hermes-connector scope " + verb + " home telegram -1001234567890",
		Args:    cobra.ExactArgs(3), ValidArgsFunction: a.completeGateways,
	})
	container := c.Flags().String("scope", "", "the `SCOPE` the chat lies in: a Discord server; Telegram has none")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s := manage.Scope{
			Name: args[0], Platform: relay.PlatformID(args[1]), Chat: relay.ChatID(args[2]), Scope: relay.ScopeID(*container),
		}
		return a.withClient(cmd.Context(), func(client *admin.Client) error {
			g, err := run(cmd, client, s)
			if err != nil {
				return err
			}
			return a.print(*asJSON, g, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "✓ %s %s %s %s\n", g.Platform, spellChat(g), done, g.Instance)
			})
		})
	}
	return c
}

func spellChat(g manage.Grant) string {
	switch {
	case g.Chat == "":
		return "scope " + string(g.Scope)
	case g.Scope == "":
		return "chat " + string(g.Chat)
	}
	return "chat " + string(g.Chat) + " of scope " + string(g.Scope)
}

func (a *app) scopeList() *cobra.Command {
	return listing(a, &cobra.Command{
		Use: "list [NAME]", Short: "List granted chats", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGateways,
	}, list[manage.Grant]{
		fetch: func(ctx context.Context, client *admin.Client, args []string) ([]manage.Grant, error) {
			return client.Scopes(ctx, optionalName(args))
		},
		none: "No chat is granted. Direct messages need none; for a group: hermes-connector scope claim NAME PLATFORM CHAT",
		head: []string{"PLATFORM", "SCOPE", "CHAT", "INSTANCE", "TENANT", "SINCE"},
		row: func(g manage.Grant) []string {
			return []string{
				string(g.Platform), dash(g.Scope), dash(g.Chat), string(g.Instance), string(g.Tenant),
				g.GrantedAt.Local().Format(time.DateOnly),
			}
		},
	})
}
