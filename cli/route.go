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

func newRouteCmd(a *app) *cobra.Command {
	return group("route", "See and free the chats that gateways reserved for their tenants", a.routeList(), a.routeDrop())
}

func (a *app) routeList() *cobra.Command {
	return listing(a, &cobra.Command{
		Use: "list [NAME]", Short: "List routes", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGateways,
		Long: "Lists what gateways declared as their routes (GATEWAY_RELAY_ROUTE_KEYS). A route keeps gateways of other\n" +
			"tenants from claiming that chat or scope; who receives messages is decided by scopes and bindings.",
	}, list[manage.Route]{
		fetch: func(ctx context.Context, client *admin.Client, args []string) ([]manage.Route, error) {
			return client.Routes(ctx, optionalName(args))
		},
		none: "No route is declared.",
		head: []string{"PLATFORM", "KEY", "TENANT", "INSTANCE", "SINCE"},
		row: func(r manage.Route) []string {
			return []string{string(r.Platform), r.Key, string(r.Tenant), string(r.Instance), r.At.Local().Format(time.DateTime)}
		},
	})
}

func (a *app) routeDrop() *cobra.Command {
	c := withIDs(&cobra.Command{
		Use: "drop PLATFORM KEY", Short: "Free what a route reserves, until a gateway declares it again", Args: cobra.ExactArgs(2),
		Example: "  hermes-connector route drop discord 112233445566778899",
	})
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		k := manage.RouteKey{Platform: relay.PlatformID(args[0]), Key: args[1]}
		return a.withClient(cmd.Context(), func(client *admin.Client) error {
			out, err := client.DropRoute(cmd.Context(), k)
			if err != nil {
				return err
			}
			return a.print(*asJSON, out, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "✓ %s %s is no longer reserved\n", out.Platform, out.Key)
			})
		})
	}
	return c
}
