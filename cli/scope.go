package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

func newScopeCmd(a *app) *cobra.Command {
	return group("scope", "Grant chats to gateways",
		a.scope("claim", "Grant a chat to a gateway", "now belongs to", admin.Claim),
		a.scope("release", "Take a chat back", "no longer belongs to", admin.Release), a.scopeList())
}

func (a *app) scope(verb, short, done string, op admin.Op[manage.Scope, manage.Grant]) *cobra.Command {
	c := &cobra.Command{
		Use:     verb + " NAME PLATFORM CHAT",
		Short:   short,
		Long:    short + ". An empty CHAT (\"\") with --scope means all chats of that scope.",
		Example: "  hermes-connector scope " + verb + " home telegram -1001234567890",
		Args:    cobra.ExactArgs(3), ValidArgsFunction: a.completeGateways,
	}
	container := c.Flags().String("scope", "", "the `SCOPE` the chat lies in: a Discord server; Telegram has none")
	args := func(pos []string) (manage.Scope, error) {
		return manage.Scope{
			Name: pos[0], Platform: relay.PlatformID(pos[1]), Chat: relay.ChatID(pos[2]), Scope: relay.ScopeID(*container),
		}, nil
	}
	return asking(a, c, op, args, func(w io.Writer, _ manage.Scope, g manage.Grant) {
		_, _ = fmt.Fprintf(w, "✓ %s %s %s %s\n", g.Platform, g.Where(), done, g.Instance)
	})
}

func (a *app) scopeList() *cobra.Command {
	c := &cobra.Command{Use: "list [NAME]", Short: "List granted chats", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGateways}
	return asking(a, c, admin.Scopes, nameArg, func(w io.Writer, _ manage.Named, all []manage.Grant) {
		none := "No chat is granted. Direct messages need none; for a group: hermes-connector scope claim NAME PLATFORM CHAT"
		list(a, w, all, none, []string{"PLATFORM", "SCOPE", "CHAT", "INSTANCE", "TENANT", "SINCE"}, func(g manage.Grant) []string {
			return []string{
				string(g.Platform), dash(g.Scope), dash(g.Chat), string(g.Instance), string(g.Tenant),
				g.GrantedAt.Local().Format(time.DateOnly),
			}
		})
	})
}
