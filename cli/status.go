package cli

import (
	"fmt"
	"io"
	"strconv"
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
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		st, err := ask(cmd.Context(), a, admin.Status, struct{}{})
		if err != nil {
			return err
		}
		if err := a.print(*asJSON, st, func(w io.Writer) { statusTable(w, st, time.Now()) }); err != nil {
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
	for _, warning := range st.Warnings {
		_, _ = fmt.Fprintf(w, "!  %s\n\n", plain(warning))
	}
	if len(st.Bots) == 0 {
		_, _ = fmt.Fprintln(w, "No bot is configured. Next: a [[bots]] table in connector.toml, see hermes-connector check --help")
	} else {
		rows := [][]string{{"", "BOT", "NAME", "STATE", "LAST EVENT"}}
		for _, b := range st.Bots {
			glyph, state := "✗", string(b.State)
			if b.State == platforms.Connected {
				glyph = "✓"
			}
			if b.Reason != "" {
				state += ": " + b.Reason
			}
			rows = append(rows, []string{glyph, string(b.Platform) + ":" + string(b.ID), dash(b.Name), state, ago(b.LastEventAt, now)})
		}
		table(w, rows)
	}
	_, _ = fmt.Fprintln(w)
	if len(st.Instances) == 0 {
		_, _ = fmt.Fprintln(w, "No gateway is enrolled. Next: hermes-connector enroll NAME")
		return
	}
	rows := [][]string{{"", "INSTANCE", "TENANT", "STATE", "WAITING", "OLDEST", "DEAD", "LAST SEEN"}}
	for _, i := range st.Instances {
		glyph, state := "✓", string(i.State)
		if i.State == manage.Away || i.Warning != "" || i.Dead > 0 {
			glyph = "!"
		}
		if i.Warning != "" {
			state += " (" + i.Warning + ")"
		}
		rows = append(rows, []string{
			glyph, string(i.ID), string(i.Tenant), state, strconv.Itoa(i.Backlog), ago(i.OldestAt, now),
			strconv.Itoa(i.Dead), ago(i.LastSeenAt, now),
		})
	}
	table(w, rows)
	for _, i := range st.Instances {
		for _, warning := range i.Warnings {
			_, _ = fmt.Fprintf(w, "! %s: %s\n", i.ID, plain(warning))
		}
	}
}

func newExplainCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "explain [EVENT]", Short: "Show why messages went where they went", Args: cobra.MaximumNArgs(1),
		Long: "Shows what the running server decided about the newest events, or about one event: which instance got it, or why none did.",
	}
	args := func(pos []string) (e manage.Explain, err error) {
		if len(pos) > 0 {
			e.Event = relay.EventID(pos[0])
		}
		return e, nil
	}
	return asking(a, c, admin.Explain, args, func(w io.Writer, _ manage.Explain, all []gate.Decision) {
		head := []string{"AT", "BOT", "EVENT", "CHAT", "USER", "INSTANCE", "REASON"}
		list(a, w, all, "No event since the server started.", head, func(d gate.Decision) []string {
			return []string{
				d.At.Local().Format(time.TimeOnly), d.Bot().String(), string(d.Event), string(d.Chat), dash(d.User),
				dash(d.Instance), reasonOf(d),
			}
		})
	})
}

// reasonOf is a decision's reason, and what keeps the event waiting.
func reasonOf(d gate.Decision) string {
	if d.Hint == "" {
		return string(d.Reason)
	}
	return string(d.Reason) + ": " + plain(d.Hint)
}
