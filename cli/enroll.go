package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

func newEnrollCmd(a *app) *cobra.Command {
	var args manage.Enroll
	c := command(a, ops.Enroll, "Make credentials for a new gateway")
	c.Args, c.ValidArgsFunction = cobra.MaximumNArgs(1), nil // the shell proposes no name: the gateway's is a new one
	c.Long = `Makes a gateway and prints its credentials as the lines of its .env file. The credentials are
shown only once. Every Hermes gateway since June 2026 takes them.

With --token the command makes no gateway yet but prints a single-use token. A gateway of August
2026 or newer exchanges the token for credentials by itself:

  hermes gateway enroll --token TOKEN

For that the gateway needs GATEWAY_RELAY_URL and GATEWAY_RELAY_IDP_TOKEN_URL, where it proves who it
is. Both are printed too, unless [identity] in the configuration names another service. With these two
lines a gateway needs no token: it gets fresh credentials at every start. Without NAME any gateway may
use the token, and the second line expires with it.`
	c.Example = "  hermes-connector enroll home >> ~/.hermes/.env\n" +
		"  hermes-connector enroll kids --tenant family --wake-url https://kids.example.net/wake\n" +
		"  hermes-connector enroll attic --token\n" +
		"  hermes-connector enroll desk --mcp > desk.env"
	c.Flags().StringVar(&args.Tenant, "tenant", "", "the `TENANT` it belongs to (default home); tenants see nothing of each other")
	c.Flags().StringVar(&args.WakeURL, "wake-url", "", "`URL` to GET when messages wait and the gateway is away")
	tokenOnly := c.Flags().Bool("token", false, "print a single-use enrollment token")
	forMCP := c.Flags().Bool("mcp", false, "for an MCP client: also print what goes into its configuration")
	c.MarkFlagsMutuallyExclusive("token", "mcp")
	a.maker(c.Command)
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		if len(pos) > 0 {
			args.Name = pos[0]
		} else if !*tokenOnly {
			return usageError{errors.New("a gateway needs a name: hermes-connector enroll NAME")}
		}
		if *tokenOnly {
			return show(cmd.Context(), a, ops.EnrollToken, args, *c.asJSON, a.printToken)
		}
		if *forMCP {
			return newCredentials(cmd.Context(), c, args, "enrolled. Put these lines into "+args.Name+".env", a.afterEnrollMCP)
		}
		return newCredentials(cmd.Context(), c, args, "enrolled"+intoEnv, afterEnroll)
	}
	return c.Command
}

// printToken prints the token and the .env lines on stdout and everything else on stderr.
func (a *app) printToken(w io.Writer, t manage.EnrollmentToken) {
	whom := cmp.Or(string(t.Gateway), "any new gateway")
	a.say("✓ an enrollment token for %s%s, valid once, until %s:\n", whom, ofTenant(t.Tenant), clock(t.ExpiresAt))
	_, _ = fmt.Fprintln(w, t.Token)
	if t.IdentityURL == "" {
		a.say(`
On the gateway's machine: hermes gateway enroll --token TOKEN --connector-url URL
The gateway must be able to prove who it is, as [identity] in the configuration demands.`)
		return
	}
	a.say("\nPut these lines into ~/.hermes/.env on the gateway's machine:\n")
	_, _ = fmt.Fprintln(w, a.below()+strings.Join(t.EnvLines(), "\n"))
	if t.Gateway == "" {
		a.say(`
Then run there: hermes gateway enroll --token TOKEN
The second line expires with the token; an enrolled gateway no longer needs it.`)
	} else {
		a.say(`
Then restart the gateway: it gets its credentials by itself at every start and does not need the token.
Or get lasting credentials, by running there: hermes gateway enroll --token TOKEN
The second line is a secret; hermes-connector gateway identity %s --revoke revokes the URL in it.`, t.Gateway)
	}
	a.say("Gateways older than August 2026 can do neither: they need the lines that hermes-connector enroll NAME prints.")
	a.warnLocal(t.Env["GATEWAY_RELAY_URL"])
}

// warnLocal warns if other machines cannot reach the address that a gateway is to dial, or may know it by another name.
func (a *app) warnLocal(dialed string) {
	if u, err := url.Parse(dialed); err == nil && u.Port() == "0" {
		a.say("! The port is known only when the server runs: write the port that hermes-connector serve prints into GATEWAY_RELAY_URL, or set one as listen.")
	} else if err == nil && slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, u.Hostname()) {
		a.say("! Only this machine can reach %s. For a gateway on another machine: hermes-connector setup --reach lan (or internet).", dialed)
	} else if err == nil && u.Scheme == "http" && u.Hostname() == netaddr.Address().String() {
		a.say("! %s is this machine's address in its network. If gateways reach it by another name, set public_url.", dialed)
	}
}

// ofTenant names the tenant, unless it is the default one.
func ofTenant(t relay.TenantID) string {
	if t == relay.DefaultTenant {
		return ""
	}
	return " (tenant " + string(t) + ")"
}

func clock(t time.Time) string { return t.Local().Format("15:04:05") }

// intoEnv says what to do with a gateway's lines.
const intoEnv = ". Put these lines into ~/.hermes/.env on the gateway's machine and restart the gateway"

// newCredentials asks for credentials. It prints their .env lines on stdout, and everything else on stderr: first done,
// which says what happened to the gateway, and at the end the next step.
func newCredentials[A any](ctx context.Context, c operation[A, manage.Enrolled], args A, done string, next func(manage.Enrolled) string) error {
	a := c.app
	e, err := ask(ctx, a, c.op, args)
	if err != nil {
		return err
	}
	err = a.print(*c.asJSON, e, func(w io.Writer) {
		a.say("✓ gateway %s%s %s:\n", e.Gateway, ofTenant(e.Tenant), done)
		_, _ = fmt.Fprintln(w, a.below()+strings.Join(e.EnvLines(), "\n"))
		a.say("\nThe secret is not shown again. %s", terminal.Text(next(e)))
		if _, named := e.Env["GATEWAY_RELAY_PLATFORMS"]; !named {
			a.say("! No bot is configured, so the lines name no bot. When there is one, hermes-connector gateway rotate %s prints new lines.", e.Gateway)
		}
		a.warnLocal(e.URL)
	})
	if err != nil {
		return fmt.Errorf("the credentials were made but could not be printed (hermes-connector gateway rotate %s makes new ones): %w", e.Gateway, err)
	}
	return nil
}

// afterEnroll returns the next step for a new gateway.
func afterEnroll(e manage.Enrolled) string {
	return "Next: hermes-connector link " + string(e.Instance) +
		"\nDoes that gateway already run a bot of its own? Then read first: hermes-connector help moving"
}

// afterEnrollMCP returns the next step for a gateway that is an MCP client.
func (a *app) afterEnrollMCP(e manage.Enrolled) string {
	var b strings.Builder
	a.printMCP(&b, string(e.Gateway))
	return "The file is a secret: chmod 600 it. Into the client's configuration goes:\n\n" + b.String() +
		"\nNext: hermes-connector link " + string(e.Instance) + "\nAbout the tools, and Claude Code: hermes-connector help mcp"
}

// afterRotate returns the next step for a gateway with a new secret, and how long the old secret is valid.
func afterRotate(e manage.Enrolled) string {
	next := "Next: put these lines into the gateway's .env in place of the old ones, and restart it."
	if e.OldUntil.IsZero() {
		return next
	}
	return "The old one works until the gateway dials with the new one, at the latest until " +
		e.OldUntil.Local().Format("2 January at 15:04") + ".\n" + next
}
