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

func newRouteCmd(a *app) *cobra.Command {
	return group("route", "See and free the chats that gateways reserved for their tenants", a.routeList(), a.routeDrop())
}

func (a *app) routeList() *cobra.Command {
	c := &cobra.Command{
		Use: "list [NAME]", Short: "List routes", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGateways,
		Long: "Lists what gateways declared as their routes (GATEWAY_RELAY_ROUTE_KEYS). A route keeps gateways of other\n" +
			"tenants from claiming the chat or the scope of that route; who receives messages is decided by scopes and bindings.",
	}
	return asking(a, c, admin.Routes, nameArg, func(w io.Writer, _ manage.Named, all []manage.Route) {
		list(a, w, all, "No route is declared.", []string{"PLATFORM", "KEY", "TENANT", "INSTANCE", "SINCE"}, func(r manage.Route) []string {
			return []string{string(r.Platform), r.Key, string(r.Tenant), string(r.Instance), r.At.Local().Format(time.DateTime)}
		})
	})
}

func (a *app) routeDrop() *cobra.Command {
	c := &cobra.Command{
		Use: "drop PLATFORM KEY", Short: "Free what a route reserves, until a gateway declares it again", Args: cobra.ExactArgs(2),
		Example: "  hermes-connector route drop discord 112233445566778899",
	}
	args := func(pos []string) (manage.RouteKey, error) {
		return manage.RouteKey{Platform: relay.PlatformID(pos[0]), Key: pos[1]}, nil
	}
	return asking(a, c, admin.DropRoute, args, func(w io.Writer, _, out manage.RouteKey) {
		_, _ = fmt.Fprintf(w, "✓ %s %s is no longer reserved\n", out.Platform, out.Key)
	})
}
