package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

func newGatewayCmd(a *app) *cobra.Command {
	return group("gateway", "List gateways, and show, name, set up, rotate or revoke one",
		newGatewayListCmd(a), newGatewayShowCmd(a), newGatewayAccessCmd(a), newGatewayPolicyCmd(a), newGatewayQuietCmd(a), newGatewayRenameCmd(a), newGatewayRotateCmd(a), newGatewayRevokeCmd(a), newGatewayIdentityCmd(a))
}

func newGatewayListCmd(a *app) *cobra.Command {
	return listing(command(a, ops.Gateways, "List all gateways"), noArgs, "No gateway yet. Next: hermes-connector enroll NAME", gatewayHead, gatewayRow)
}

var gatewayHead = []any{"GATEWAY", "INSTANCE", "TENANT", "STATE", "CREATED", "LAST SEEN", "SECRETS"}

func gatewayRow(g manage.Gateway) []any {
	return []any{
		nameOr(g.Name, g.ID), g.Instance, g.Tenant, gatewayState(g.State, g.LastSeenAt), g.CreatedAt.Local().Format(time.DateOnly), ago(g.LastSeenAt, time.Now()), g.Secrets,
	}
}

func newGatewayShowCmd(a *app) *cobra.Command {
	return command(a, ops.Gateway, "Show one gateway: its people, chats, settings and waiting messages").asking(nameArg, func(w io.Writer, _ manage.Named, g manage.Gateway) {
		table(w, narrow([][]any{gatewayHead, gatewayRow(g)}))
		if g.Holds != nil {
			holdings(w, g, time.Now())
		}
		warn(w, g.Warnings)
	})
}

// holdings writes what belongs to a gateway, a line for each kind: people, chats, settings, waiting messages.
func holdings(w io.Writer, g manage.Gateway, now time.Time) {
	line := func(what string, all ...string) {
		_, _ = fmt.Fprintf(w, "%-17s %s\n", what, terminal.Plain(strings.Join(all, ", ")))
	}
	h, people, chats := g.Holds, []string(nil), []string(nil)
	for _, p := range h.People {
		who := withName(p.Person, string(p.Platform)+" "+string(p.User))
		if len(p.Commands) > 0 {
			who += " (only " + strings.Join(p.Commands, ", ") + ")"
		}
		if p.DMDefault {
			who += " (direct messages too)"
		}
		people = append(people, who)
	}
	for _, c := range h.Grants {
		chats = append(chats, string(c.Platform)+" "+c.Where())
	}
	_, _ = fmt.Fprintln(w)
	line("people", cmp.Or(strings.Join(people, ", "), "nobody"))
	line("chats", cmp.Or(strings.Join(chats, ", "), "none"))
	line("listens there to", heard(h.Principal))
	for _, r := range h.Policies {
		line("policy", policyLine(r))
	}
	line("quiet hours", quietLine(h.Quiet))
	line("waiting messages", strconv.Itoa(h.Waiting))
	line("identity URL", map[bool]string{false: "none", true: "there is one"}[h.Identity])
	line("wake URL", cmp.Or(h.WakeURL, "none"))
	if h.Poke != nil {
		line("last wake poke", h.Poke.String()+", "+ago(h.Poke.At, now))
	}
	if len(h.Gateways) > 0 {
		line("also served by", join(h.Gateways))
	}
}

func newGatewayQuietCmd(a *app) *cobra.Command {
	c := command(a, ops.SetQuiet, "Set the hours in which messages for a gateway wait, or end them (off); without hours, show them")
	c.Long = "Between these times of day messages for a gateway wait, and nobody wakes it. A /stop, an approval and a press of a\n" +
		"button reach it at once. Afterwards what waited comes in order, as after any absence."
	c.Example = "  hermes-connector gateway quiet home 22:00-07:00 --zone Europe/Berlin\n" +
		"  hermes-connector gateway quiet home off"
	zone := c.Flags().String("zone", "", "the time `ZONE` of the hours, such as Europe/Berlin (default: the server's)")
	args := func(pos []string) (manage.SetQuiet, error) {
		q := manage.SetQuiet{Name: pos[0], Zone: *zone}
		if len(pos) == 2 {
			q.Hours = pos[1]
		}
		return q, nil
	}
	return c.asking(args, func(w io.Writer, set manage.SetQuiet, q manage.Quiet) {
		_, _ = fmt.Fprintf(w, "✓ quiet hours of %s: %s\n", terminal.Plain(set.Name), quietLine(q))
	})
}

// quietLine describes quiet hours in a line.
func quietLine(q manage.Quiet) string {
	switch {
	case q.Hours == "":
		return "none"
	case q.Now.IsZero():
		return q.Hours + " (" + q.Zone + ", which the server's machine does not know: they never begin. Is its tzdata missing?)"
	}
	now := "it is not quiet now"
	if !q.Until.IsZero() {
		now = "it is quiet now"
	}
	return q.Hours + " (" + cmp.Or(q.Zone, "the server's time zone") + ", where it is " + q.Now.Format("15:04") + "; " + now + ")"
}

func newGatewayRenameCmd(a *app) *cobra.Command {
	c := command(a, ops.Rename, "Give a gateway another name; its credentials, people, chats and messages stay")
	c.Long = `Gives a gateway another name: the one that status and the other commands show, that people see in
the chat, and that a message to it begins with (@NAME). Credentials, linked people, chats and
waiting messages stay, and a gateway that is connected stays connected.

The name that it was enrolled with is its id. It stays good in all commands, beside the new name;
a name between the two is free again. Its id as NEWNAME takes the new name back.`
	c.Example = "  hermes-connector gateway rename home kitchen"
	args := func(pos []string) (manage.Rename, error) { return manage.Rename{Name: pos[0], To: pos[1]}, nil }
	return c.asking(args, func(w io.Writer, _ manage.Rename, r manage.Renamed) {
		_, _ = fmt.Fprintf(w, "✓ gateway %s is called %s now\n", terminal.Plain(r.Former), terminal.Plain(r.Name))
		if string(r.Instance) != r.Name {
			_, _ = fmt.Fprintf(w, "  %s, its id, stays good in commands\n", r.Instance)
		}
	})
}

func newGatewayRotateCmd(a *app) *cobra.Command {
	c := command(a, ops.Rotate, "Give a gateway a new secret; the old one works until the new one is used, at most a day")
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		return newCredentials(cmd.Context(), c, manage.Named{Name: pos[0]}, "has a new secret"+intoEnv, afterRotate)
	}
	return c.Command
}

func newGatewayRevokeCmd(a *app) *cobra.Command {
	c := command(a, ops.Revoke, "Revoke a gateway: its credentials, links and chats end at once")
	yes := c.Flags().Bool("yes", false, "do not ask")
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		n := manage.Named{Name: pos[0]}
		g, err := ask(cmd.Context(), a, ops.Gateway, n)
		if err != nil {
			return err
		}
		name, goes := nameOr(g.Name, g.ID), losses(g.Holds) // asked before: a revoked gateway has no name any more
		question := fmt.Sprintf("Revoke %s? Its credentials end at once", name)
		if goes != "" {
			question += ". Also removed: " + goes
		}
		if err := a.confirmed(*yes, question+".", "revoked"); err != nil {
			return err
		}
		if g, err = ask(cmd.Context(), a, c.op, n); err != nil {
			return err
		}
		return a.print(*c.asJSON, g, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "✓ gateway %s is revoked\n", name)
			if goes != "" {
				_, _ = fmt.Fprintf(w, "  also removed: %s\n", goes)
			}
		})
	}
	return c.Command
}

// losses says what is lost with the last gateway of an instance; empty: nothing is lost.
func losses(h *manage.Holdings) string {
	if h == nil || len(h.Gateways) > 0 || len(h.People)+len(h.Grants)+h.Waiting == 0 {
		return ""
	}
	var all []string
	for _, part := range []struct {
		n         int
		one, many string
	}{
		{len(h.People), "linked person", "linked people"}, {len(h.Grants), "chat", "chats"},
		{h.Waiting, "waiting message, which becomes a dead letter", "waiting messages, which become dead letters"},
	} {
		if part.n > 0 {
			all = append(all, manage.Counted(part.n, part.one, part.many))
		}
	}
	return strings.Join(all, ", ")
}

func newGatewayIdentityCmd(a *app) *cobra.Command {
	c := command(a, ops.Identity, "Make a new identity URL, from which a gateway gets credentials at every start; the old URL ends")
	revoke := c.Flags().Bool("revoke", false, "revoke the URL without making a new one")
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		n := manage.Named{Name: pos[0]}
		if *revoke {
			return show(cmd.Context(), a, ops.DropIdentity, n, *c.asJSON, func(w io.Writer, moved manage.Moved) {
				_, _ = fmt.Fprintf(w, "✓ the identity URL of %s is revoked; the gateway's current credentials stay valid\n", terminal.Plain(n.Name))
			})
		}
		return show(cmd.Context(), a, c.op, n, *c.asJSON, func(w io.Writer, u manage.IdentityURL) {
			a.say("✓ a new identity URL for %s%s. Put this line into ~/.hermes/.env on the gateway's machine:", u.Instance, ofTenant(u.Tenant))
			_, _ = fmt.Fprintln(w, u.EnvLine())
			a.say("The URL is a secret, and it is not shown again. Gateways older than August 2026 cannot use it.")
		})
	}
	return c.Command
}
