package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

func (a *app) gatewayShow() *cobra.Command {
	c := a.named("show", "Show one gateway, and all that was given to it")
	return asking(a, c, admin.Gateway, nameArg, func(w io.Writer, _ manage.Named, g manage.Gateway) {
		table(w, narrow([][]any{gatewayHead, gatewayRow(g)}))
		if g.Holds != nil {
			_, _ = fmt.Fprintln(w)
			table(w, holdingRows(g, time.Now()))
		}
		warn(w, g.Warnings)
	})
}

// warn writes warnings, a line each.
func warn(w io.Writer, warnings []string) {
	for _, warning := range warnings {
		_, _ = fmt.Fprintln(w, "!", plain(warning))
	}
}

// holdingRows are what a gateway holds, a line for each kind.
func holdingRows(g manage.Gateway, now time.Time) [][]any {
	h, none := g.Holds, "nobody: hermes-connector link "+string(g.ID)
	var people, chats, others []string
	for _, p := range h.People {
		who := string(p.Platform) + " " + string(p.User)
		if p.DMDefault {
			who += " (direct messages too)"
		}
		people = append(people, who)
	}
	for _, c := range h.Grants {
		chats = append(chats, string(c.Platform)+" "+c.Where())
	}
	rows := [][]any{
		{"people", cmp.Or(strings.Join(people, ", "), none)},
		{"granted chats", cmp.Or(strings.Join(chats, ", "), "none; direct messages need none")},
		{"in granted chats it hears", heard(h.Principal)},
	}
	for _, r := range h.Policies {
		rows = append(rows, []any{"policy on " + string(r.Platform), policyLine(r)})
	}
	waiting := counted(h.Waiting, "message", "messages")
	if h.Waiting > 0 {
		waiting += ", the oldest from " + ago(h.OldestAt, now)
	}
	identity := "none"
	if h.Identity {
		identity = "there is one; gateway identity " + string(g.ID) + " --revoke revokes it"
	}
	rows = append(rows, []any{"waiting", waiting}, []any{"dead letters", h.Dead}, []any{"identity URL", identity}, []any{"wake URL", cmp.Or(h.WakeURL, "none")})
	if h.Poke != nil {
		rows = append(rows, []any{"last wake poke", h.Poke.String() + ", " + ago(h.Poke.At, now)})
	}
	for _, o := range h.Gateways {
		others = append(others, string(o))
	}
	if len(others) > 0 {
		rows = append(rows, []any{"served too by", strings.Join(others, ", ")})
	}
	return rows
}

// heard is whom a gateway hears in the chats it was granted.
func heard(p manage.Principal) string {
	switch p.Policy {
	case relay.AnyOne:
		return "anyone"
	case relay.AllowList:
		return "its people and " + allowed(p.Allow)
	}
	return "its people only"
}

func allowed(people []store.Person) string {
	var all []string
	for _, p := range people {
		all = append(all, string(p.Platform)+":"+string(p.User))
	}
	return strings.Join(all, ", ")
}

// policyLine is a policy in a line.
func policyLine(r manage.Relevance) string {
	parts := []string{"all messages of people"}
	if r.RequireAddress {
		parts[0] = "only what is addressed to the bot"
		if len(r.Free) > 0 {
			parts[0] += ", but all of " + join(r.Free)
		}
	}
	if r.AllowBots {
		parts = append(parts, "of other bots too")
	}
	if r.OwnerMustAddress {
		parts = append(parts, "its people must address it too")
	}
	return strings.Join(append(parts, "context "+string(r.Context)), "; ")
}

// counted is a number of things in words.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// losses are what goes with the last gateway of an instance; empty: nothing goes.
func losses(h *manage.Holdings) string {
	if h == nil || len(h.Gateways) > 0 {
		return ""
	}
	var all []string
	for _, l := range []struct {
		n         int
		one, many string
	}{
		{len(h.People), "person is no longer bound", "people are no longer bound"},
		{len(h.Grants), "granted chat is free again", "granted chats are free again"},
		{h.Waiting, "waiting message becomes a dead letter", "waiting messages become dead letters"},
	} {
		if l.n > 0 {
			all = append(all, counted(l.n, l.one, l.many))
		}
	}
	return strings.Join(all, ", ")
}

func newPeopleCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "list [NAME]", Short: "List who is bound to which gateway", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGateways,
	}
	none := "Nobody is bound. Next: hermes-connector link NAME"
	head := []any{"PLATFORM", "PERSON", "GATEWAY", "TENANT", "SINCE", "DIRECT MESSAGES"}
	return group("people", "See whose messages go where", listing(a, c, admin.People, nameArg, none, head, func(p manage.Bound) []any {
		direct := "" // one gateway of several was chosen, or there is only one
		if p.DMDefault {
			direct = "here"
		}
		return []any{p.Platform, p.User, p.Instance, p.Tenant, p.BoundAt.Local().Format(time.DateOnly), direct}
	}))
}
