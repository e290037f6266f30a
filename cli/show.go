package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

func (a *app) gatewayShow() *cobra.Command {
	return command(a, ops.Gateway, "Show one gateway, and all that was given to it").asking(nameArg, func(w io.Writer, _ manage.Named, g manage.Gateway) {
		table(w, narrow([][]any{gatewayHead, gatewayRow(g)}))
		if g.Holds != nil {
			holdings(w, g, time.Now())
		}
		warn(w, g.Warnings)
	})
}

// warn writes warnings, a line each.
func warn(w io.Writer, warnings []string) {
	for _, warning := range warnings {
		_, _ = fmt.Fprintln(w, "!", terminal.Plain(finding.Local(warning)))
	}
}

// holdings writes what a gateway holds, a line for each kind.
func holdings(w io.Writer, g manage.Gateway, now time.Time) {
	line := func(what string, all ...string) {
		_, _ = fmt.Fprintf(w, "%-17s %s\n", what, terminal.Plain(strings.Join(all, ", ")))
	}
	h, people, chats := g.Holds, []string(nil), []string(nil)
	for _, p := range h.People {
		who := string(p.Platform) + " " + string(p.User)
		if p.Person != "" {
			who = p.Person + " (" + who + ")"
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
	line("granted chats", cmp.Or(strings.Join(chats, ", "), "none"))
	line("hears there", heard(h.Principal))
	for _, r := range h.Policies {
		line("policy", policyLine(r))
	}
	line("waiting messages", strconv.Itoa(h.Waiting))
	line("identity URL", map[bool]string{false: "none", true: "there is one"}[h.Identity])
	line("wake URL", cmp.Or(h.WakeURL, "none"))
	if h.Poke != nil {
		line("last wake poke", h.Poke.String()+", "+ago(h.Poke.At, now))
	}
	if len(h.Gateways) > 0 {
		line("served too by", join(h.Gateways))
	}
}

// heard is whom a gateway hears in the chats it was granted.
func heard(p manage.Principal) string {
	switch p.Policy {
	case relay.AnyOne:
		return "anyone"
	case relay.AllowList:
		all := "its people"
		for _, a := range p.Allow {
			all += ", " + string(a.Platform) + ":" + string(a.User)
		}
		return all
	}
	return "its people only"
}

// policyLine is a policy in a line.
func policyLine(r manage.Relevance) string {
	out := string(r.Platform) + ": all messages of people"
	if r.RequireAddress {
		out = string(r.Platform) + ": what is addressed to the bot"
		if len(r.Free) > 0 {
			out += ", and all of " + join(r.Free)
		}
	}
	if r.AllowBots {
		out += "; other bots too"
	}
	if r.OwnerMustAddress {
		out += "; its people must address it too"
	}
	return out + "; context " + string(r.Context)
}

// losses are what goes with the last gateway of an instance; empty: nothing goes.
func losses(h *manage.Holdings) string {
	if h == nil || len(h.Gateways) > 0 || len(h.People)+len(h.Grants)+h.Waiting == 0 {
		return ""
	}
	var all []string
	for _, part := range []struct {
		n         int
		one, many string
	}{
		{len(h.People), "person's binding", "people's bindings"}, {len(h.Grants), "granted chat", "granted chats"},
		{h.Waiting, "waiting message, which becomes a dead letter", "waiting messages, which become dead letters"},
	} {
		if part.n > 0 {
			all = append(all, manage.Counted(part.n, part.one, part.many))
		}
	}
	return strings.Join(all, ", ")
}

func newPeopleCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "list [NAME]", Short: "List who is linked to which gateway", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.complete([]string{"NAME"})}
	asJSON := jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		all, err := a.people(cmd.Context(), pos)
		if err != nil {
			return err
		}
		return a.print(*asJSON, all, func(w io.Writer) {
			if len(all) == 0 {
				a.say("Nobody is linked. Next: hermes-connector link NAME")
				return
			}
			rows := [][]any{{"PLATFORM", "PERSON", "NAME", "GATEWAY", "TENANT", "SINCE", "DIRECT MESSAGES"}}
			for _, p := range all {
				direct := "yes"
				if p.DirectTo != p.Instance {
					direct = "go to " + nameOr(p.DirectName, p.DirectTo)
				}
				rows = append(rows, []any{p.Platform, p.User, p.Person, nameOr(p.Gateway, p.Instance), p.Tenant, p.BoundAt.Local().Format(time.DateOnly), direct})
			}
			table(w, narrow(rows))
		})
	}
	return group("people", "Show whose messages go where, name them, and change it", c, a.peopleName(), a.peopleDirect())
}

// instances are the names of gateways, one of each instance: those of one instance hold the same.
func (a *app) instances(ctx context.Context) (names []string, err error) {
	gateways, err := ask(ctx, a, ops.Gateways, struct{}{})
	var asked []relay.InstanceID
	for _, g := range gateways {
		if g.State != manage.Revoked && !slices.Contains(asked, g.Instance) {
			asked, names = append(asked, g.Instance), append(names, string(g.ID))
		}
	}
	return names, err
}

// people are who is linked to the named gateways, or to any.
func (a *app) people(ctx context.Context, names []string) ([]manage.Binding, error) {
	all := []manage.Binding{}
	if len(names) == 0 {
		var err error
		if names, err = a.instances(ctx); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		g, err := ask(ctx, a, ops.Gateway, manage.Named{Name: name})
		if err != nil {
			return nil, err
		}
		if g.Holds != nil {
			all = append(all, g.Holds.People...)
		}
	}
	return all, nil
}
