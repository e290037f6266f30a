package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store/cluster"
)

func newStatusCmd(a *app) *cobra.Command {
	c := command(a, ops.Status, "Show bots, gateways and waiting messages")
	c.Long = "Shows bots, gateways and the messages that wait. Exits with 1 if the server is not running or not ready."
	all := c.Flags().Bool("all", false, "show all counters, and no names, ids or secrets: a report to paste into an issue")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		var nodes *cluster.Overview
		cfg, unread := a.config() // unread is why the configuration cannot be used; a running server is asked all the same
		if unread == nil && len(cfg.Shards) > 0 {
			return a.shardsStatus(cmd.Context(), cfg, *c.asJSON)
		}
		if unread == nil && cfg.Cluster.On() && !*all {
			seen, err := a.overview(cmd.Context(), cfg)
			if err == nil {
				nodes = &seen
			} else {
				a.say("PostgreSQL cannot be asked: %v", err)
			}
		}
		st, err := ask(cmd.Context(), a, c.op, struct{}{})
		if err != nil {
			if nodes != nil && !*c.asJSON { // perhaps this node has no server to ask, or no node leads: show at least the nodes
				nodesTable(a.stdout, *nodes)
			}
			return err
		}
		if *all {
			r := nameless(st)
			err = a.print(*c.asJSON, r, func(w io.Writer) { tellReport(w, r, time.Now()) })
		} else {
			start := serveCommand
			if unread == nil && !st.Running {
				start = a.startCommand(cfg)
			}
			err = a.print(*c.asJSON, statusOfNodes{st, nodes}, func(w io.Writer) {
				if nodes != nil {
					nodesTable(w, *nodes)
				}
				statusTable(w, st, start, time.Now())
				notices(w, st.Findings)
			})
		}
		if err != nil {
			return err
		}
		if !st.Ready {
			return errFinding
		}
		return nil
	}
	return c.Command
}

// statusOfNodes is a status with the state of a cluster's nodes; nil: there is no cluster.
type statusOfNodes struct {
	manage.Status
	Cluster *cluster.Overview `json:"cluster,omitempty"`
}

// statusTable writes st. start is the command that starts a stopped server.
func statusTable(w io.Writer, st manage.Status, start string, now time.Time) {
	_, _ = fmt.Fprintf(w, "hermes-connector %s\n\n%s\n\n", st.Version, terminal.Lines(summary(st, start)))
	if !st.Running && len(st.Bots)+len(st.Instances) == 0 {
		return
	}
	if len(st.Bots) == 0 {
		_, _ = fmt.Fprintln(w, "No bot is configured. Next: hermes-connector setup")
	} else {
		botTable(w, st.Bots, now)
		calledTable(w, st.Bots, now)
	}
	if f := st.Media; f != nil && f.Files+f.Pending+f.Failed > 0 {
		_, _ = fmt.Fprintf(w, "\n%s kept (%d KiB), %d to be fetched, %d given up\n", manage.Counted(f.Files, "file is", "files are"), f.Bytes>>10, f.Pending, f.Failed)
	}
	_, _ = fmt.Fprintln(w)
	if len(st.Instances) == 0 {
		_, _ = fmt.Fprintln(w, "No gateway is enrolled. Next: hermes-connector enroll NAME")
		return
	}
	gatewayTable(w, st.Instances, now)
}

// notices writes the findings that are worth knowing but report no fault, a line each.
func notices(w io.Writer, all finding.List) {
	for _, f := range all {
		if f.Severity == finding.Notice {
			_, _ = fmt.Fprintln(w, findingLine(f))
		}
	}
}

// summary returns the one sentence for somebody in a hurry: all is well, or the worst fault and how to fix it.
func summary(st manage.Status, start string) string {
	switch {
	case !st.Running && len(st.Bots) == 0:
		return "✗ The server is not running, and no bot is configured. Next: hermes-connector setup"
	case !st.Running:
		return "✗ The server is not running. Start it with: " + start
	}
	if line := worstLine(st.Findings); line != "" {
		return line
	}
	if st.Ready {
		return "✓ Everything works."
	}
	for _, b := range st.Bots {
		if b.State != platforms.Connected {
			return "✗ Not everything works: the bot " + botName(b) + " is " + strings.ReplaceAll(string(b.State), "_", " ") + "."
		}
	}
	return "✗ No message is accepted."
}

// worstLine returns the worst fault with its fix, and how many more there are; empty: there is none.
func worstLine(all []finding.Finding) string {
	if wrong(all) == 0 {
		return ""
	}
	line := findingLine(all[0]) + "; " + terminal.Plain(all[0].Fix)
	if n := wrong(all) - 1; n > 0 {
		line += " (" + manage.Counted(n, "more finding", "more findings") + ": hermes-connector doctor)"
	}
	return line
}

func botName(b manage.BotStatus) string { return string(b.Platform) + ":" + string(b.ID) }

func botTable(w io.Writer, bots []manage.BotStatus, now time.Time) {
	rows := [][]any{{" ", "BOT", "NAME", "STATE", "LAST MESSAGE"}}
	for _, b := range bots {
		glyph, state := "✗", strings.ReplaceAll(string(b.State), "_", " ")
		if b.State == platforms.Connected {
			glyph = "✓"
		}
		if !b.Since.IsZero() {
			state += " since " + finding.Clock(b.Since)
		}
		rows = append(rows, []any{glyph, botName(b), b.Name, state, ago(b.LastEventAt, now)})
	}
	table(w, rows)
	for _, b := range bots { // their reasons may be long
		because := finding.Local(b.Reason)
		if b.RetryAt.After(now) {
			because = strings.TrimPrefix(because+"; next try in "+in(b.RetryAt.Sub(now)), "; ")
		}
		if because != "" {
			_, _ = fmt.Fprintf(w, "%s: %s\n", terminal.Plain(botName(b)), terminal.Plain(because))
		}
	}
}

func gatewayTable(w io.Writer, all []manage.InstanceStatus, now time.Time) {
	rows := [][]any{{" ", "GATEWAY", "TENANT", "STATE", "WAITING", "OLDEST", "DEAD LETTERS"}}
	for _, i := range all {
		glyph := "✓"
		if i.State == manage.Away || i.Warning != "" || i.Dead > 0 {
			glyph = "!"
		}
		state := i.State
		if i.Revoked {
			state = manage.Revoked
		}
		how := gatewayState(state, i.LastSeenAt)
		if !i.RefusedAt.IsZero() {
			how = "refused at " + finding.Local(finding.Stamp(i.RefusedAt))
		}
		rows = append(rows, []any{glyph, nameOr(i.Name, i.ID), i.Tenant, how, i.Backlog, ago(i.OldestAt, now), i.Dead})
	}
	table(w, narrow(rows))
	for _, i := range all {
		for _, note := range i.Notes {
			_, _ = fmt.Fprintf(w, "  %s: %s, %s\n", nameOr(i.Name, i.ID), terminal.Plain(note.Says), manage.Counted(i.Backlog, "message waits", "messages wait"))
		}
		for _, warning := range i.Warnings {
			_, _ = fmt.Fprintf(w, "! %s: %s\n", nameOr(i.Name, i.ID), terminal.Plain(finding.Local(warning)))
		}
	}
}

// gatewayState describes a gateway's state in words; seen is when the gateway was last connected, zero: never.
func gatewayState(s manage.State, seen time.Time) string {
	switch {
	case s != manage.Away && s != manage.Asleep:
		return string(s)
	case seen.IsZero():
		return "never connected"
	}
	return string(s) + " since " + finding.Clock(seen)
}

// calledTable shows the bots that their networks call over HTTP, with what needs attention there.
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
		rows = append(rows, []any{glyph, botName(b), b.Hook.URL, ago(b.Hook.LastRequestAt, now), b.Hook.Refused})
	}
	if len(rows) == 1 {
		return
	}
	_, _ = fmt.Fprintln(w)
	table(w, rows)
	for _, b := range bots {
		for _, warning := range b.Warnings {
			_, _ = fmt.Fprintf(w, "! %s: %s\n", terminal.Plain(botName(b)), terminal.Plain(finding.Local(warning)))
		}
	}
}

func newExplainCmd(a *app) *cobra.Command {
	c := command(a, ops.Explain, "Show where messages went, and why")
	c.Long = "Shows what happened to the newest messages, or to one: which gateway got it, or why none did, when it was answered, and\n" +
		"the command that changes that. It also shows refused calls of networks. Messages that were stored for a gateway are\n" +
		"remembered for thirty days, all others until the server stops."
	c.Example = "  hermes-connector explain --last 5\n" +
		"  hermes-connector explain --since 2d --person ann --gateway home\n" +
		"  hermes-connector explain --person @ann --follow"
	var e manage.Explain
	f := c.Flags()
	f.IntVar(&e.Last, "last", 0, "show only the newest `N` messages; 1000 are shown at most")
	since := f.String("since", "", "only what came after `TIME`: 2d or 12h ago, or a day such as 2026-11-27")
	f.StringVar(&e.Gateway, "gateway", "", "only what `NAME` got, or why it did not")
	f.StringVar(&e.Person, "person", "", "only what that person wrote: an `ID`, a name, or @ and the name of an account")
	f.BoolVar(&e.All, "all", false, "also what the bots wrote themselves")
	follow := f.Bool("follow", false, "keep showing new messages, until Ctrl-C")
	c.RunE = func(cmd *cobra.Command, pos []string) error {
		if e.Last < 0 {
			return usageError{errors.New("--last cannot be negative")}
		}
		if len(pos) > 0 {
			e.Event = relay.EventID(pos[0])
		}
		if *since != "" {
			var ok bool
			if e.Since, ok = words.Since(*since, time.Now()); !ok {
				return usageError{fmt.Errorf("--since: %q is not a time: write 2d, 12h or 2026-11-27", *since)}
			}
		}
		if e.Event != "" && *follow {
			return usageError{errors.New("--follow is about what is to come, not about one event")}
		}
		for first := true; ; first = false {
			all, err := ask(cmd.Context(), a, c.op, e)
			if *follow && cmd.Context().Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if len(all) > 0 || first && !*follow {
				if err := a.print(*c.asJSON, all, func(w io.Writer) { explainedAll(a, w, all) }); err != nil {
					return err
				}
			}
			if !*follow {
				return nil
			}
			for _, d := range all {
				e.Since = d.At // the newest is the last
			}
			e.Last = 0
			select {
			case <-cmd.Context().Done():
				return nil
			case <-time.After(followEvery):
			}
		}
	}
	return c.Command
}

// followEvery is how often a command that follows looks for news.
const followEvery = time.Second

func explainedAll(a *app, w io.Writer, all []gate.Decision) {
	if len(all) == 0 {
		a.say("No such message is remembered.")
	}
	for _, d := range all {
		explained(w, d)
	}
}

// explained writes one decision: the message, and below it what happened to the message and the command that would
// change that.
func explained(w io.Writer, d gate.Decision) {
	at := d.At.Local().Format(time.TimeOnly)
	if time.Since(d.At) > 12*time.Hour {
		at = d.At.Local().Format(time.DateTime)
	}
	_, _ = fmt.Fprintf(w, "%s  %s", at, terminal.Plain(d.Bot().String()))
	if d.Person != "" {
		_, _ = fmt.Fprintf(w, "  %s", terminal.Plain(d.Person))
	}
	for _, about := range []struct{ what, id string }{{"person", string(d.User)}, {"chat", string(d.Chat)}, {"event", string(d.Event)}} {
		if about.id != "" {
			_, _ = fmt.Fprintf(w, "  %s %s", about.what, terminal.Plain(about.id))
		}
	}
	says := d.Says
	if d.Reason != gate.Accepted && d.Reason != gate.Undecided { // the word to search for
		says += " (" + string(d.Reason) + ")"
	}
	_, _ = fmt.Fprintf(w, "\n  %s\n", terminal.Plain(finding.Local(says)))
	for _, a := range d.Answers {
		_, _ = fmt.Fprintf(w, "  %s\n", terminal.Plain(finding.Local(words.Answer(a))))
	}
	for _, f := range d.Media {
		_, _ = fmt.Fprintf(w, "  its %s is %s\n", f.Kind, terminal.Plain(strings.ReplaceAll(string(f.State), "_", " ")))
	}
	if d.Change != "" {
		_, _ = fmt.Fprintf(w, "  To change that: %s\n", terminal.Plain(d.Change))
	}
	if d.Also != "" {
		_, _ = fmt.Fprintf(w, "  or:             %s\n", terminal.Plain(d.Also))
	}
}

func newAuditCmd(a *app) *cobra.Command {
	c := command(a, ops.Audit, "Show who changed what, and when")
	c.Long = "Shows the newest changes of one gateway or of all, the newest last. For each tenant 10,000 changes are kept, at most\n2,000 of them by one gateway."
	limit := c.Flags().Int("limit", 100, "show this many; 0 shows all")
	args := func(pos []string) (manage.AuditQuery, error) {
		n, err := nameArg(pos)
		return manage.AuditQuery{Name: n.Name, Limit: *limit}, err
	}
	head := []any{"AT", "WHO", "ACTION", "GATEWAY", "INSTANCE", "TENANT", "DETAIL"}
	return listing(c, args, "Nothing was changed.", head, func(r manage.AuditRow) []any {
		who, detail := strings.TrimSpace(string(r.ActorKind)+" "+r.Actor), r.Detail
		switch {
		case r.Person == "":
		case detail != "":
			detail += " (" + r.Person + ")"
		default:
			who += " (" + r.Person + ")"
		}
		return []any{r.At, who, words.Action(r.Action), cmp.Or(r.Name, string(r.Gateway), string(r.Instance)), r.Instance, r.Tenant, detail}
	})
}
