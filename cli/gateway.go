package cli

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

func newEnrollCmd(a *app) *cobra.Command {
	var args manage.Enroll
	c := &cobra.Command{
		Use:   "enroll NAME",
		Short: "Make credentials for a new gateway",
		Long: "Makes a gateway and prints its credentials as the lines of its .env file. They are shown this\n" +
			"once. With --token it prints a single-use token with which the gateway enrolls itself.",
		Example: "  hermes-connector enroll home >> ~/.hermes/.env\n" +
			"  hermes-connector enroll kids --tenant family --wake-url https://kids.example.net/wake",
		Args: cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&args.Tenant, "tenant", "", "isolation domain (default home)")
	c.Flags().StringVar(&args.WakeURL, "wake-url", "", "`URL` to GET when messages wait and the gateway is away")
	tokenOnly := c.Flags().Bool("token", false, "print a single-use enrollment token")
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		args.Name = pos[0]
		return a.withClient(cmd.Context(), func(client *admin.Client) error {
			if *tokenOnly {
				t, err := client.EnrollToken(cmd.Context(), args)
				if err != nil {
					return err
				}
				return a.print(*asJSON, t, func(w io.Writer) {
					a.say("✓ an enrollment token for %s (tenant %s); good once, until %s", t.Gateway, t.Tenant, clock(t.ExpiresAt))
					_, _ = fmt.Fprintln(w, t.Token)
				})
			}
			e, err := client.Enroll(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.printCredentials(*asJSON, e, "enrolled")
		})
	}
	return c
}

func clock(t time.Time) string { return t.Local().Format("15:04:05") }

// printCredentials prints the .env lines on stdout and everything else on stderr.
func (a *app) printCredentials(asJSON bool, e manage.Enrolled, done string) error {
	return a.print(asJSON, e, func(w io.Writer) {
		a.say("✓ gateway %s %s (tenant %s). Put these lines into ~/.hermes/.env on its machine and restart it:", e.Gateway, done, e.Tenant)
		a.say("")
		for _, line := range e.EnvLines() {
			_, _ = fmt.Fprintln(w, line)
		}
		a.say("")
		a.say("The secret is not shown again. Next: hermes-connector link %s", e.Instance)
		if _, named := e.Env["GATEWAY_RELAY_PLATFORMS"]; !named {
			a.say("! No bot is configured, so the lines name none. With one, hermes-connector gateway rotate %s prints them anew.", e.Gateway)
		}
		if u, err := url.Parse(e.URL); err == nil && slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, u.Hostname()) {
			a.say("! %s can be reached from this machine only. For a gateway on another one, set listen and public_url.", e.URL)
		}
	})
}

func newGatewayCmd(a *app) *cobra.Command {
	return group("gateway", "List, show, rotate or revoke gateways",
		a.gatewayList(), a.gatewayShow(), a.gatewayRotate(), a.gatewayRevoke())
}

func (a *app) gatewayList() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List all gateways", Args: cobra.NoArgs}
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.withClient(cmd.Context(), func(client *admin.Client) error {
			all, err := client.Gateways(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(*asJSON, all, func(w io.Writer) {
				if len(all) == 0 {
					a.say("No gateway yet. Next: hermes-connector enroll NAME")
					return
				}
				gatewayTable(w, all)
			})
		})
	}
	return c
}

func gatewayTable(w io.Writer, all []manage.Gateway) {
	rows := [][]string{{"GATEWAY", "INSTANCE", "TENANT", "STATE", "CREATED", "LAST SEEN", "SECRETS"}}
	now := time.Now()
	for _, g := range all {
		rows = append(rows, []string{
			string(g.ID), string(g.Instance), string(g.Tenant), string(g.State),
			g.CreatedAt.Local().Format(time.DateOnly), ago(g.LastSeenAt, now), strconv.Itoa(g.Secrets),
		})
	}
	table(w, rows)
}

// named is a command with one gateway's name as its argument.
func (a *app) named(verb, short string, run func(c *cobra.Command, client *admin.Client, asJSON bool, n manage.Named) error) *cobra.Command {
	c := &cobra.Command{Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGateways}
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withClient(cmd.Context(), func(client *admin.Client) error {
			return run(cmd, client, *asJSON, manage.Named{Name: args[0]})
		})
	}
	return c
}

func (a *app) gatewayShow() *cobra.Command {
	return a.named("show", "Show one gateway", func(c *cobra.Command, client *admin.Client, asJSON bool, n manage.Named) error {
		g, err := client.Gateway(c.Context(), n)
		if err != nil {
			return err
		}
		return a.print(asJSON, g, func(w io.Writer) { gatewayTable(w, []manage.Gateway{g}) })
	})
}

func (a *app) gatewayRotate() *cobra.Command {
	return a.named("rotate", "Give a gateway a new secret; the old one works until the new one is used, or for a day",
		func(c *cobra.Command, client *admin.Client, asJSON bool, n manage.Named) error {
			e, err := client.Rotate(c.Context(), n)
			if err != nil {
				return err
			}
			return a.printCredentials(asJSON, e, "has a new secret")
		})
}

func (a *app) gatewayRevoke() *cobra.Command {
	return a.named("revoke", "Kill a gateway's credentials at once, and drop what was bound and granted to it",
		func(c *cobra.Command, client *admin.Client, asJSON bool, n manage.Named) error {
			g, err := client.Revoke(c.Context(), n)
			if err != nil {
				return err
			}
			return a.print(asJSON, g, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "✓ gateway %s is revoked\n", g.ID)
			})
		})
}

// cut splits "platform:user".
func cut(s string) (platform, user string, err error) {
	platform, user, ok := strings.Cut(s, ":")
	if !ok || platform == "" || user == "" {
		return "", "", usageError{fmt.Errorf("%q: want PLATFORM:USER, such as telegram:4242", s)}
	}
	return platform, user, nil
}
