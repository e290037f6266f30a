package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/admin"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

func newStatusCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "Show bots, gateways and what waits", Args: cobra.NoArgs,
		Long: "Shows bots, gateways and what waits for them. Exits with 1 when the server does not run or is not ready.",
	}
	asJSON := jsonFlag(c)
	all := c.Flags().Bool("all", false, "with all counters and without names, ids and secrets: a report to paste into an issue")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		st, err := ask(cmd.Context(), a, admin.Status, struct{}{})
		if err != nil {
			return err
		}
		if *all {
			r := nameless(st)
			err = a.print(*asJSON, r, func(w io.Writer) { tellReport(w, r, time.Now()) })
		} else {
			err = a.print(*asJSON, st, func(w io.Writer) { statusTable(w, st, time.Now()) })
		}
		if err != nil {
			return err
		}
		if !st.Ready {
			return errFinding
		}
		return nil
	}
	return c
}

func statusTable(w io.Writer, st manage.Status, now time.Time) {
	head := "✓ ready"
	switch {
	case !st.Running:
		head = "✗ not running: hermes-connector serve"
	case !st.Ready:
		head = "✗ not ready"
	}
	_, _ = fmt.Fprintf(w, "hermes-connector %s  %s\n\n", st.Version, head)
	if worst := worstLine(st.Findings); worst != "" {
		_, _ = fmt.Fprintf(w, "%s\n\n", worst)
	}
	for _, warning := range st.Warnings {
		_, _ = fmt.Fprintf(w, "!  %s\n\n", plain(warning))
	}
	if len(st.Bots) == 0 {
		_, _ = fmt.Fprintln(w, "No bot is configured. Next: a [[bots]] table in connector.toml, see hermes-connector check --help")
	} else {
		rows := [][]any{{" ", "BOT", "NAME", "STATE", "LAST EVENT"}}
		for _, b := range st.Bots {
			glyph, state := "✗", string(b.State)
			if b.State == platforms.Connected {
				glyph = "✓"
			}
			if b.Reason != "" {
				state += ": " + b.Reason
			}
			rows = append(rows, []any{glyph, string(b.Platform) + ":" + string(b.ID), b.Name, state, ago(b.LastEventAt, now)})
		}
		table(w, rows)
		calledTable(w, st.Bots, now)
	}
	if f := st.Media; f != nil && f.Files+f.Pending+f.Failed > 0 {
		_, _ = fmt.Fprintf(w, "\n%d files kept (%d KiB), %d to be fetched, %d given up\n", f.Files, f.Bytes>>10, f.Pending, f.Failed)
	}
	_, _ = fmt.Fprintln(w)
	if len(st.Instances) == 0 {
		_, _ = fmt.Fprintln(w, "No gateway is enrolled. Next: hermes-connector enroll NAME")
		return
	}
	rows := [][]any{{" ", "INSTANCE", "TENANT", "STATE", "WAITING", "OLDEST", "DEAD", "LAST SEEN"}}
	for _, i := range st.Instances {
		glyph, state := "✓", string(i.State)
		if i.State == manage.Away || i.Warning != "" || i.Dead > 0 {
			glyph = "!"
		}
		if i.Warning != "" {
			state += " (" + i.Warning + ")"
		}
		rows = append(rows, []any{glyph, i.ID, i.Tenant, state, i.Backlog, ago(i.OldestAt, now), i.Dead, ago(i.LastSeenAt, now)})
	}
	table(w, rows)
	for _, i := range st.Instances {
		for _, warning := range i.Warnings {
			_, _ = fmt.Fprintf(w, "! %s: %s\n", i.ID, plain(warning))
		}
	}
}

// calledTable shows the bots that their networks call over HTTP, and what is to be looked at there.
func calledTable(w io.Writer, bots []manage.BotStatus, now time.Time) {
	rows := [][]any{{" ", "BOT", "CALLED AT", "LAST REQUEST", "REFUSED"}}
	for _, b := range bots {
		if b.Hook == nil {
			continue
		}
		glyph := " "
		if len(b.Warnings) > 0 {
			glyph = "!"
		}
		rows = append(rows, []any{glyph, string(b.Platform) + ":" + string(b.ID), b.Hook.URL, ago(b.Hook.LastRequestAt, now), b.Hook.Refused})
	}
	if len(rows) == 1 {
		return
	}
	_, _ = fmt.Fprintln(w)
	table(w, rows)
	for _, b := range bots {
		for _, warning := range b.Warnings {
			_, _ = fmt.Fprintf(w, "! %s: %s\n", plain(string(b.Platform)+":"+string(b.ID)), plain(warning))
		}
	}
}

func newExplainCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "explain [EVENT]", Short: "Show why messages went where they went", Args: cobra.MaximumNArgs(1),
		Long: "Shows what the running server decided about the newest events, or about one event: which instance got it, or why none did;\n" +
			"and which calls of networks it refused, and why: these have no event.",
	}
	args := func(pos []string) (e manage.Explain, err error) {
		if len(pos) > 0 {
			e.Event = relay.EventID(pos[0])
		}
		return e, nil
	}
	head := []any{"AT", "BOT", "EVENT", "CHAT", "USER", "INSTANCE", "REASON"}
	return listing(a, c, admin.Explain, args, "No event since the server started.", head, func(d gate.Decision) []any {
		why := string(d.Reason)
		if d.Hint != "" { // what keeps the event waiting
			why += ": " + d.Hint
		}
		for _, f := range d.Media {
			why += fmt.Sprintf(" [%s %s]", f.Kind, f.State)
		}
		return []any{d.At.Local().Format(time.TimeOnly), d.Bot(), d.Event, d.Chat, d.User, d.Instance, why}
	})
}

func newAuditCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "audit [NAME]", Short: "Show who changed what, and when", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeGateways,
		Long: "Shows the newest changes, newest last: of one gateway or instance, or of all. Of each tenant the newest 10,000 are kept, of which 2,000 are one credential's.",
	}
	limit := c.Flags().Int("limit", 100, "show so many; 0 shows all")
	args := func(pos []string) (manage.AuditQuery, error) {
		n, err := nameArg(pos)
		return manage.AuditQuery{Name: n.Name, Limit: *limit}, err
	}
	head := []any{"AT", "WHO", "ACTION", "TENANT", "INSTANCE", "GATEWAY", "DETAIL"}
	return listing(a, c, admin.Audit, args, "Nothing was changed.", head, func(r manage.AuditRow) []any {
		who := strings.TrimSpace(string(r.ActorKind) + " " + r.Actor)
		return []any{r.At, who, r.Action, r.Tenant, r.Instance, r.Gateway, r.Detail}
	})
}
