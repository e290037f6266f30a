package cli

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/wake"
)

// report is a status that can be shown to strangers, with the details for which they would ask.
type report struct {
	manage.Status
	Commit string `json:"commit,omitempty"`
	Go     string `json:"go"`
	System string `json:"system"`
}

// nameless returns those parts of st that are numbers or words from closed sets, and no name that somebody chose or a
// network gave. It numbers bots, gateways and tenants. It leaves out reasons and warnings, which may name a file, a
// host or a chat.
func nameless(st manage.Status) report {
	out := manage.Status{
		Version: st.Version, Ready: st.Ready, Running: st.Running, Counters: st.Counters, Media: st.Media,
		Bots: []manage.BotStatus{}, Instances: []manage.InstanceStatus{},
	}
	for _, b := range st.Bots {
		out.Bots = append(out.Bots, manage.BotStatus{
			Platform: b.Platform, ID: relay.BotID(strconv.Itoa(len(out.Bots) + 1)),
			State: b.State, LastEventAt: b.LastEventAt, Since: b.Since, RetryAt: b.RetryAt, Answers: namelessAnswers(b.Answers),
		})
	}
	var tenants []relay.TenantID
	for _, i := range st.Instances {
		if !slices.Contains(tenants, i.Tenant) {
			tenants = append(tenants, i.Tenant)
		}
		poke := i.Poke
		if poke != nil {
			poke = &wake.Poke{At: poke.At, Woken: poke.Woken, Status: poke.Status}
		}
		out.Instances = append(out.Instances, manage.InstanceStatus{
			ID:     relay.InstanceID("gateway-" + strconv.Itoa(len(out.Instances)+1)),
			Tenant: relay.TenantID("tenant-" + strconv.Itoa(slices.Index(tenants, i.Tenant)+1)),
			State:  i.State, Backlog: i.Backlog, OldestAt: i.OldestAt, Dead: i.Dead, Prompts: i.Prompts, Answers: i.Answers,
			LastSeenAt: i.LastSeenAt, RefusedAt: i.RefusedAt, Warning: i.Warning, Poke: poke,
		})
	}
	for _, f := range st.Findings {
		out.Findings = append(out.Findings, finding.Finding{Code: f.Code, Severity: f.Severity, What: "details are left out of this report", Why: f.Why, Fix: "hermes-connector doctor"})
	}
	return report{Status: out, Commit: commit(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
}

// namelessAnswers returns w without the reason, which has a network's words.
func namelessAnswers(w *manage.Waiting) *manage.Waiting {
	if w == nil {
		return nil
	}
	return &manage.Waiting{Count: w.Count, OldestAt: w.OldestAt, Next: w.Next}
}

// tellReport writes a report.
func tellReport(w io.Writer, r report, now time.Time) {
	_, _ = fmt.Fprintln(w, built())
	for _, f := range r.Findings {
		_, _ = fmt.Fprintf(w, "%s %s: %s\n", f.Severity, f.Code, f.Why)
	}
	statusTable(w, r.Status, serveCommand, now) // without the path of the configuration, in which a name may be
	if len(r.Counters) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w, "\nCounters since the start (those at 0 are left out):")
	rows := [][]any{{"  NAME", "TOTAL", "WHAT"}}
	for _, name := range slices.Sorted(maps.Keys(r.Counters)) {
		if n := r.Counters[name]; n > 0 {
			rows = append(rows, []any{"  " + name, n, count.Help(name)})
		}
	}
	table(w, rows)
}
