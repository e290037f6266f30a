package status

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/cli/web/day"
	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// summary is the one sentence, and below it what else is wrong.
func (s *Section) summary(v view) html.Node {
	all := s.troubles(v.status)
	if len(all) == 0 {
		return html.Form(`<h1 class="good">Everything works</h1>`)
	}
	worst := html.Form(`<h1 class="{}">{}</h1>{}`, class(all[0]), page.Sentence(sentence(all[0])), trouble(all[0]))
	var more []html.Node
	for _, f := range all[1:] {
		more = append(more, html.Form(`<h3 class="{}">{}</h3>{}`, class(f), page.Sentence(sentence(f)), trouble(f)))
	}
	if len(more) == 0 {
		return worst
	}
	return html.Form(`{}<details id="more"><summary>{} to be looked at</summary>{}</details>`,
		worst, manage.Counted(len(more), "other thing is", "other things are"), cards("plain", more))
}

// sentence is what was found, as doctor says it, as a heading begins.
func sentence(f finding.Finding) string {
	words := f.What
	if f.About != "" {
		words = f.About + ": " + f.What
	}
	first, n := utf8.DecodeRuneInString(words)
	return string(unicode.ToUpper(first)) + words[n:]
}

// class is how bad a finding looks.
func class(f finding.Finding) string {
	if f.Severity == finding.Fault {
		return "bad"
	}
	return "warn"
}

// trouble is what a finding says below its heading.
func trouble(f finding.Finding) html.Node {
	var why, mend, code html.Node
	if f.Why != "" {
		why = html.Form("<p>{}</p>", page.Sentence(f.Why))
	}
	if f.Fix != "" {
		mend = fix(f.Fix)
	}
	if f.Code != "" {
		code = html.Form(`<p class="dim">{}</p>`, f.Code)
	}
	return html.Group(why, mend, code)
}

// troubles are what is wrong, the worst first: what was found, and, where nothing was, what the state itself says. What
// could not be looked at is not known to be wrong.
func (s *Section) troubles(st manage.Status) (all []finding.Finding) {
	for _, f := range st.Findings {
		if f.Wrong() {
			all = append(all, f)
		}
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
	var all []html.Node
	for _, b := range v.status.Bots {
		all = append(all, s.bot(b, v.at))
	}
	if len(all) == 0 {
		return section("Bots", html.Form("<p>No bot is configured.</p>"), command("hermes-connector setup"))
	}
	return section("Bots", cards("cards plain", all))
}

func (s *Section) bot(b manage.BotStatus, now time.Time) html.Node {
	var name html.Node
	if b.Name != "" {
		name = html.Form(" <bdi>@{}</bdi>", strings.TrimPrefix(b.Name, "@"))
	}
	var reason, retry, called html.Node
	if b.Reason != "" {
		reason = page.Sentence(b.Reason)
	}
	if b.RetryAt.After(now) {
		retry = html.Form("at {}", page.Clock(b.RetryAt))
	}
	if b.Hook != nil {
		called = ago(b.Hook.LastRequestAt, now, "not yet")
	}
	var warnings []html.Node
	for _, w := range b.Warnings {
		warnings = append(warnings, warning(w))
	}
	return html.Form("<h3>{}{}</h3><p>{}</p><dl>{}{}{}{}{}</dl>{}", s.label(b.Platform), name, badge(botLooks[b.State]),
		row("Because", reason), row("Since", ago(b.Since, now, "the start")), row("Last event", ago(b.LastEventAt, now, "none yet")),
		row("Next try", retry), row("Last call", called), html.Group(warnings...))
}

// gateways are the gateways' cards.
func (s *Section) gateways(v view) html.Node {
	if len(v.gateways) == 0 {
		return section("Gateways", html.Form("<p>No gateway is enrolled.</p>"), command("hermes-connector enroll home"))
	}
	states := make(map[relay.InstanceID]manage.InstanceStatus)
	tenants := make(map[relay.TenantID]bool)
	for _, i := range v.status.Instances {
		states[i.ID] = i
		tenants[i.Tenant] = true
	}
	var all []html.Node
	for _, g := range v.gateways {
		all = append(all, s.gateway(g, states[g.Instance], len(tenants) > 1, v.at))
	}
	return section("Gateways", cards("cards plain", all))
}

// gateway is one card. tenants: there are several, so its own is named.
func (s *Section) gateway(g manage.Gateway, i manage.InstanceStatus, tenants bool, now time.Time) html.Node {
	waiting := html.Text("nothing")
	if i.Backlog > 0 {
		waiting = html.Form("{}, the oldest from {}", manage.Counted(i.Backlog, "message", "messages"), ago(i.OldestAt, now, "just now"))
	}
	var tenant, instance, dead html.Node
	if tenants {
		tenant = html.Text(string(g.Tenant))
	}
	if string(g.Instance) != string(g.ID) {
		instance = html.Text(string(g.Instance))
	}
	if i.Dead > 0 {
		dead = html.Form(`<span class="warn">{}</span>`, manage.Counted(i.Dead, "dead letter", "dead letters"))
	}
	rows := []html.Node{
		row("Tenant", tenant), row("Instance", instance), row("Last seen", ago(g.LastSeenAt, now, "never")),
		row("Waiting", waiting), row("Given up", dead),
	}
	if h := g.Holds; h != nil {
		rows = append(rows, s.holds(h, now)...)
	}
	var below []html.Node
	for _, w := range i.Warnings {
		below = append(below, warning(w))
	}
	if i.Dead > 0 {
		below = append(below, command("hermes-connector buffer dead "+string(g.ID)))
	}
	name := string(g.ID)
	return html.Form(`<h3>{}</h3><p>{}</p><dl>{}</dl>{}<form method="post" action="/link"><input type="hidden" name="gateway" value="{}">`+
		`<p><button class="quiet" aria-label="Link a person to {}">Link a person</button></p></form>`,
		name, badge(gatewayLook(g)), html.Group(rows...), html.Group(below...), name, name)
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
		relay.AllowList: "who is linked, and " + manage.Counted(len(h.Principal.Allow), "person", "people") + " on its list",
	}[h.Principal.Policy]
	var wake html.Node
	switch {
	case h.Poke != nil:
		wake = html.Form("{}, {}", h.Poke.String(), ago(h.Poke.At, now, "now"))
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
	var words []html.Node
	for n, one := range all[:min(len(all), most)] {
		if n > 0 {
			words = append(words, html.Text(", "))
		}
		words = append(words, html.Form("<bdi>{}</bdi>", one)) // its direction is its own
	}
	if len(all) > most {
		words = append(words, html.Text(" and "+strconv.Itoa(len(all)-most)+" more"))
	}
	return html.Group(words...)
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
	return section("The last 24 hours", html.Form(`<div class="cards">{}{}{}{}</div>`,
		figure("Messages in", strconv.Itoa(allIn)+" in all", in),
		figure("Messages out", strconv.Itoa(allOut)+" in all", out),
		figure("Waiting", "at most "+strconv.Itoa(most), waiting),
		figure("Delivery delay", took24, took),
	))
}

// figure is a chart with its caption.
func figure(title, words string, values []float64) html.Node {
	return html.Form(`<figure class="card"><figcaption><strong>{}</strong>: {}</figcaption>{}</figure>`,
		title, words, day.Chart(title+", the last 24 hours: "+words, values))
}

// machine is what the connector stands on.
func machine(v view) html.Node {
	m := v.machine
	snapshot := ago(m.SnapshotAt, v.at, "none yet")
	switch {
	case !m.Snapshots:
		snapshot = html.Text("off")
	case m.SnapshotFailed:
		snapshot = html.Form(`<span class="warn">the last try failed; </span>the newest: {}`, snapshot)
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
		certificate = html.Form("{} ({})", words, page.Day(m.CertificateUntil))
	}
	if f := v.status.Media; f != nil && f.Files+f.Pending > 0 {
		files = html.Text(manage.Counted(f.Files, "file", "files") + " (" + size(f.Bytes) + "), " + strconv.Itoa(f.Pending) + " to be fetched")
	}
	return section("This server", html.Form("<dl>{}{}{}{}{}</dl>",
		row("Newest snapshot", snapshot), row("Disk", disk), row("Files", files), row("Certificate", certificate),
		row("Version", html.Text(v.status.Version))))
}
