package status

import (
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/day"
	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// summary is the one sentence, and below it what else is wrong.
func (s *Section) summary(v view) html.Node {
	all := s.troubles(v.status)
	if len(all) == 0 {
		return html.El("h1", html.Attr("class", "good"), html.Text("Everything works"))
	}
	nodes := []html.Node{trouble("h1", all[0])}
	if more := all[1:]; len(more) > 0 {
		list := []html.Node{html.Attr("class", "plain")}
		for _, f := range more {
			list = append(list, html.El("li", html.Attr("class", "card"), trouble("h3", f)))
		}
		nodes = append(nodes, html.El("details", html.Attr("id", "more"),
			html.El("summary", html.Text(counted(len(more), "other thing is", "other things are")+" to be looked at")), html.El("ul", list...)))
	}
	return html.Group(nodes...)
}

// trouble is a finding under a heading.
func trouble(heading string, f finding.Finding) html.Node {
	class := "warn"
	if f.Severity == finding.Fault {
		class = "bad"
	}
	what := []html.Node{html.Attr("class", class), html.Text(f.What)}
	nodes := []html.Node{html.El("h1", what...)}
	if heading != "h1" {
		nodes = []html.Node{html.El("h3", what...)}
	}
	if f.Why != "" {
		nodes = append(nodes, html.El("p", html.Text(f.Why)))
	}
	if f.Fix != "" {
		nodes = append(nodes, fix(f.Fix))
	}
	if f.Code != "" {
		nodes = append(nodes, html.El("p", html.Attr("class", "dim"), html.Text(strings.TrimSpace(f.Code+" "+f.About))))
	}
	return html.Group(nodes...)
}

// troubles are what is wrong, the worst first: what was found, and, where nothing was, what the state itself says.
func (s *Section) troubles(st manage.Status) []finding.Finding {
	all := append([]finding.Finding{}, st.Findings...)
	for _, w := range st.Warnings {
		all = append(all, finding.Finding{Severity: finding.Warning, What: w})
	}
	if len(all) > 0 {
		return all
	}
	for _, b := range st.Bots {
		if b.State != platforms.Connected {
			all = append(all, finding.Finding{
				Severity: finding.Fault, What: "The bot of " + s.label(b.Platform) + " is not connected", Why: b.Reason, Fix: "hermes-connector doctor",
			})
		}
	}
	switch {
	case len(all) > 0:
	case !st.Ready:
		all = append(all, finding.Finding{Severity: finding.Fault, What: "The connector is not ready", Fix: "hermes-connector doctor"})
	case len(st.Instances) == 0:
		all = append(all, finding.Finding{Severity: finding.Warning, What: "No gateway is enrolled yet", Fix: "hermes-connector enroll home"})
	}
	return all
}

// bots are the bots' cards.
func (s *Section) bots(v view) html.Node {
	nodes := []html.Node{html.Attr("class", "cards plain")}
	for _, b := range v.status.Bots {
		nodes = append(nodes, html.El("li", html.Attr("class", "card"), s.bot(b, v.at)))
	}
	if len(v.status.Bots) == 0 {
		return html.Group(html.El("h2", html.Text("Bots")), html.El("p", html.Text("No bot is configured.")), command("hermes-connector setup"))
	}
	return html.Group(html.El("h2", html.Text("Bots")), html.El("ul", nodes...))
}

func (s *Section) bot(b manage.BotStatus, now time.Time) html.Node {
	name := s.label(b.Platform)
	if b.Name != "" {
		name += " @" + strings.TrimPrefix(b.Name, "@")
	}
	var reason, retry, called html.Node
	if b.Reason != "" {
		reason = html.Text(b.Reason)
	}
	if b.RetryAt.After(now) {
		retry = html.El("time", html.Attr("datetime", b.RetryAt.UTC().Format(time.RFC3339)), html.Text("at "+b.RetryAt.Local().Format(time.TimeOnly)))
	}
	if b.Hook != nil {
		called = ago(b.Hook.LastRequestAt, now, "not yet")
	}
	nodes := []html.Node{
		html.El("h3", html.Text(name)),
		html.El("p", badge(botLooks[b.State])),
		html.El("dl", row("Because", reason), row("Since", ago(b.Since, now, "the start")), row("Last event", ago(b.LastEventAt, now, "none yet")),
			row("Next try", retry), row("Last call", called)),
	}
	for _, w := range b.Warnings {
		nodes = append(nodes, html.El("p", html.Attr("class", "warn"), html.Text(w)))
	}
	return html.Group(nodes...)
}

// gateways are the gateways' cards.
func (s *Section) gateways(v view) html.Node {
	head := html.El("h2", html.Text("Gateways"))
	if len(v.gateways) == 0 {
		return html.Group(head, html.El("p", html.Text("No gateway is enrolled.")), command("hermes-connector enroll home"))
	}
	states := make(map[relay.InstanceID]manage.InstanceStatus)
	tenants := make(map[relay.TenantID]bool)
	for _, i := range v.status.Instances {
		states[i.ID] = i
		tenants[i.Tenant] = true
	}
	nodes := []html.Node{html.Attr("class", "cards plain")}
	for _, g := range v.gateways {
		nodes = append(nodes, html.El("li", html.Attr("class", "card"), s.gateway(g, states[g.Instance], len(tenants) > 1, v.at)))
	}
	return html.Group(head, html.El("ul", nodes...))
}

// gateway is one card. tenants: there are several, so its own is named.
func (s *Section) gateway(g manage.Gateway, i manage.InstanceStatus, tenants bool, now time.Time) html.Node {
	waiting := html.Text("nothing")
	if i.Backlog > 0 {
		waiting = html.Group(html.Text(counted(i.Backlog, "message", "messages")+", the oldest from "), ago(i.OldestAt, now, "just now"))
	}
	var tenant, instance, dead html.Node
	if tenants {
		tenant = html.Text(string(g.Tenant))
	}
	if string(g.Instance) != string(g.ID) {
		instance = html.Text(string(g.Instance))
	}
	if i.Dead > 0 {
		dead = html.El("span", html.Attr("class", "warn"), html.Text(counted(i.Dead, "dead letter", "dead letters")))
	}
	rows := []html.Node{
		row("Tenant", tenant), row("Instance", instance), row("Last seen", ago(g.LastSeenAt, now, "never")),
		row("Waiting", waiting), row("Given up", dead),
	}
	if h := g.Holds; h != nil {
		rows = append(rows, s.holds(h, now)...)
	}
	nodes := []html.Node{html.El("h3", html.Text(string(g.ID))), html.El("p", badge(gatewayLooks[g.State])), html.El("dl", rows...)}
	for _, w := range i.Warnings {
		nodes = append(nodes, html.El("p", html.Attr("class", "warn"), html.Text(w)))
	}
	if i.Dead > 0 {
		nodes = append(nodes, command("hermes-connector buffer dead "+string(g.ID)))
	}
	return html.Group(append(nodes, html.El("form", html.Attr("method", "post"), html.Attr("action", "/link"),
		html.El("input", html.Attr("type", "hidden"), html.Attr("name", "gateway"), html.Attr("value", string(g.ID))),
		html.El("p", html.El("button", html.Attr("class", "quiet"), html.Attr("aria-label", "Link a person to "+string(g.ID)), html.Text("Link a person")))))...)
}

// holds are what a gateway was given.
func (s *Section) holds(h *manage.Holdings, now time.Time) []html.Node {
	var people, chats []string
	for _, b := range h.People {
		people = append(people, s.label(b.Platform)+" "+string(b.User))
	}
	for _, g := range h.Grants {
		chats = append(chats, s.label(g.Platform)+" "+g.Where())
	}
	speaks := map[relay.PrincipalPolicy]string{
		relay.OwnerOnly: "only who is linked", relay.AnyOne: "everybody in its chats",
		relay.AllowList: "who is linked, and " + counted(len(h.Principal.Allow), "person", "people") + " on its list",
	}[h.Principal.Policy]
	var wake html.Node
	switch {
	case h.Poke != nil:
		wake = html.Group(html.Text(h.Poke.String()+", "), ago(h.Poke.At, now, "now"))
	case h.WakeURL != "":
		wake = html.Text("not needed since the start")
	}
	return []html.Node{
		row("People", some(people, "nobody is linked yet")), row("Chats", some(chats, "direct messages only")),
		row("Hears", html.Text(speaks)), row("Last wake", wake),
	}
}

// some is a list in a line, cut where it gets long.
func some(all []string, none string) html.Node {
	const most = 8
	if len(all) == 0 {
		return html.Text(none)
	}
	words := strings.Join(all[:min(len(all), most)], ", ")
	if len(all) > most {
		words += " and " + strconv.Itoa(len(all)-most) + " more"
	}
	return html.Text(words)
}

// theDay are the charts.
func theDay(v view) html.Node {
	n := len(v.lines)
	in, out, waiting, took := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	var allIn, allOut, most int
	var longest time.Duration
	for i, l := range v.lines {
		in[i], out[i], waiting[i], took[i] = float64(l.In), float64(l.Out), float64(l.Waiting), float64(l.Delay)
		allIn, allOut, most, longest = allIn+int(l.In), allOut+int(l.Out), max(most, int(l.Waiting)), max(longest, l.Delay)
	}
	took24 := "no message yet"
	if longest > 0 {
		took24 = "at most " + delay(longest) + ", the average of " + span(day.Slot)
	}
	return html.Group(html.El("h2", html.Text("The last 24 hours")), html.El("div", html.Attr("class", "cards"),
		figure("Messages in", strconv.Itoa(allIn)+" in all", in),
		figure("Messages out", strconv.Itoa(allOut)+" in all", out),
		figure("Waiting", "at most "+strconv.Itoa(most), waiting),
		figure("Delivery delay", took24, took),
	))
}

// figure is a chart with its caption.
func figure(title, words string, values []float64) html.Node {
	return html.El("figure", html.Attr("class", "card"),
		html.El("figcaption", html.El("strong", html.Text(title)), html.Text(": "+words)), day.Chart(title+" in the last 24 hours: "+words, values))
}

// machine is what the connector stands on.
func machine(v view) html.Node {
	m := v.machine
	snapshot := ago(m.SnapshotAt, v.at, "none yet")
	switch {
	case !m.Snapshots:
		snapshot = html.Text("off")
	case m.SnapshotFailed:
		snapshot = html.Group(html.El("span", html.Attr("class", "warn"), html.Text("the last try failed; ")), html.Text("the newest: "), snapshot)
	}
	var disk, certificate, files html.Node
	if m.DiskFree >= 0 {
		disk = html.Text(size(m.DiskFree) + " free, the database has " + size(m.Database))
	}
	if !m.CertificateUntil.IsZero() {
		words := "good for " + span(m.CertificateUntil.Sub(v.at))
		if !m.CertificateUntil.After(v.at) {
			words = "expired"
		}
		certificate = html.Text(words + " (" + m.CertificateUntil.Local().Format(time.DateOnly) + ")")
	}
	if f := v.status.Media; f != nil && f.Files+f.Pending > 0 {
		files = html.Text(counted(f.Files, "file", "files") + " (" + size(f.Bytes) + "), " + strconv.Itoa(f.Pending) + " to be fetched")
	}
	return html.Group(html.El("h2", html.Text("This server")), html.El("dl",
		row("Newest snapshot", snapshot), row("Disk", disk), row("Files", files), row("Certificate", certificate),
		row("Version", html.Text(v.status.Version))))
}
