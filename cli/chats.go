package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

func newChatCmd(a *app) *cobra.Command {
	return group("chat", "List which group chats belong to which gateway, and change it",
		chatOf(a, ops.Claim, "Give a group chat to a gateway", "now belongs to"),
		chatOf(a, ops.Release, "Take a group chat from a gateway", "no longer belongs to"),
		newChatListCmd(a), newChatReservedCmd(a), newChatUnreserveCmd(a))
}

func chatOf(a *app, op ops.Op[manage.Scope, manage.Grant], short, done string) *cobra.Command {
	c := command(a, op, short)
	c.Long = short + ". With --server and without CHAT: all chats of that Discord server."
	c.Example = "  hermes-connector chat " + c.Name() + " home telegram -1001234567890\n" +
		"  hermes-connector chat " + c.Name() + " home discord --server 112233445566778899"
	container := c.Flags().String("server", "", "the Discord `SERVER` in which the chat is")
	c.Flags().StringVar(container, "scope", "", "the former name of --server")
	_ = c.Flags().MarkHidden("scope")
	args := func(pos []string) (manage.Scope, error) {
		s := manage.Scope{Name: pos[0], Platform: relay.PlatformID(pos[1]), Scope: relay.ScopeID(*container)}
		if len(pos) == 3 {
			s.Chat = relay.ChatID(pos[2])
		} else if s.Scope == "" {
			return s, usageError{errors.New("name the chat, or a whole Discord server with --server")}
		}
		return s, nil
	}
	return c.asking(args, func(w io.Writer, _ manage.Scope, g manage.Grant) {
		_, _ = fmt.Fprintf(w, "✓ %s %s %s %s\n", g.Platform, g.Where(), done, nameOr(g.Gateway, g.Instance))
		warn(w, g.Warnings)
	})
}

func newChatListCmd(a *app) *cobra.Command {
	none := "No group chat belongs to a gateway. To give one: hermes-connector chat claim NAME PLATFORM CHAT. Direct messages need none."
	head := []any{"PLATFORM", "SERVER", "CHAT", "GATEWAY", "TENANT", "SINCE"}
	return listing(command(a, ops.Scopes, "List which group chats belong to which gateway"), nameArg, none, head, func(g manage.Grant) []any {
		return []any{g.Platform, g.Scope, g.Chat, nameOr(g.Gateway, g.Instance), g.Tenant, g.GrantedAt.Local().Format(time.DateOnly)}
	})
}

func newChatReservedCmd(a *app) *cobra.Command {
	c := command(a, ops.Routes, "List the chats that gateways reserved for their tenant")
	c.Long = "Lists the chats and Discord servers that gateways reserved with GATEWAY_RELAY_ROUTE_KEYS. Gateways of other tenants\n" +
		"cannot claim them. Reserving a chat delivers nothing: that takes a linked person or chat claim."
	head := []any{"PLATFORM", "KEY", "TENANT", "GATEWAY", "SINCE"}
	return listing(c, nameArg, "No chat is reserved.", head, func(r manage.Route) []any {
		return []any{r.Platform, r.Key, r.Tenant, nameOr(r.Gateway, r.Instance), r.At}
	})
}

func newChatUnreserveCmd(a *app) *cobra.Command {
	c := command(a, ops.DropRoute, "Free a reserved chat, until a gateway reserves it again")
	c.Example = "  hermes-connector chat unreserve discord 112233445566778899"
	args := func(pos []string) (manage.RouteKey, error) {
		return manage.RouteKey{Platform: relay.PlatformID(pos[0]), Key: pos[1]}, nil
	}
	return c.asking(args, func(w io.Writer, _, out manage.RouteKey) {
		_, _ = fmt.Fprintf(w, "✓ %s %s is no longer reserved\n", out.Platform, out.Key)
	})
}
