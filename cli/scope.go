package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

func newScopeCmd(a *app) *cobra.Command {
	return group("scope", "Grant chats to gateways",
		a.scope(ops.Claim, "Grant a chat to a gateway", "now belongs to"),
		a.scope(ops.Release, "Take a chat back", "no longer belongs to"), a.scopeList())
}

func (a *app) scope(op ops.Op[manage.Scope, manage.Grant], short, done string) *cobra.Command {
	c := command(a, op, short)
	c.Long = short + ". With --scope and without CHAT: all chats of that scope."
	c.Example = "  hermes-connector scope " + c.Name() + " home telegram -1001234567890\n" +
		"  hermes-connector scope " + c.Name() + " home discord --scope 112233445566778899"
	container := c.Flags().String("scope", "", "the `SCOPE` the chat lies in: a Discord server; Telegram has none")
	args := func(pos []string) (manage.Scope, error) {
		s := manage.Scope{Name: pos[0], Platform: relay.PlatformID(pos[1]), Scope: relay.ScopeID(*container)}
		if len(pos) == 3 {
			s.Chat = relay.ChatID(pos[2])
		} else if s.Scope == "" {
			return s, usageError{errors.New("name the chat, or with --scope all chats of a scope")}
		}
		return s, nil
	}
	return c.asking(args, func(w io.Writer, _ manage.Scope, g manage.Grant) {
		_, _ = fmt.Fprintf(w, "✓ %s %s %s %s\n", g.Platform, g.Where(), done, terminal.Plain(g.Gateway))
		warn(w, g.Warnings)
	})
}

func (a *app) scopeList() *cobra.Command {
	none := "No chat is granted. Direct messages need none; for a group: hermes-connector scope claim NAME PLATFORM CHAT"
	head := []any{"PLATFORM", "SCOPE", "CHAT", "GATEWAY", "TENANT", "SINCE"}
	return listing(command(a, ops.Scopes, "List granted chats"), nameArg, none, head, func(g manage.Grant) []any {
		return []any{g.Platform, g.Scope, g.Chat, g.Gateway, g.Tenant, g.GrantedAt.Local().Format(time.DateOnly)}
	})
}

func newRouteCmd(a *app) *cobra.Command {
	return group("route", "See and free the chats that gateways reserved for their tenants", a.routeList(), a.routeDrop())
}

func (a *app) routeList() *cobra.Command {
	c := command(a, ops.Routes, "List routes")
	c.Long = "Lists what gateways declared as their routes (GATEWAY_RELAY_ROUTE_KEYS). A route keeps gateways of other\n" +
		"tenants from claiming the chat or the scope of that route; who receives messages is decided by scopes and bindings."
	head := []any{"PLATFORM", "KEY", "TENANT", "GATEWAY", "SINCE"}
	return listing(c, nameArg, "No route is declared.", head, func(r manage.Route) []any {
		return []any{r.Platform, r.Key, r.Tenant, r.Gateway, r.At}
	})
}

func (a *app) routeDrop() *cobra.Command {
	c := command(a, ops.DropRoute, "Free what a route reserves, until a gateway declares it again")
	c.Example = "  hermes-connector route drop discord 112233445566778899"
	args := func(pos []string) (manage.RouteKey, error) {
		return manage.RouteKey{Platform: relay.PlatformID(pos[0]), Key: pos[1]}, nil
	}
	return c.asking(args, func(w io.Writer, _, out manage.RouteKey) {
		_, _ = fmt.Fprintf(w, "✓ %s %s is no longer reserved\n", out.Platform, out.Key)
	})
}
