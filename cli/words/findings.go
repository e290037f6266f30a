package words

import (
	"cmp"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

const (
	longSilence = 24 * time.Hour  // a gateway for which messages wait is reported as silent if it is away for longer
	longTrying  = 5 * time.Minute // a bot is reported if it tries to connect for longer
	longWaiting = 5 * time.Minute // a gateway that is away is reported if a message waits for it for longer
)

// Status adds the findings to st.
func (Words) Status(st *manage.Status, seen manage.Seen) {
	add := func(all finding.List) { st.Findings = append(st.Findings, all...) }
	for _, b := range st.Bots {
		add(ofBot(b, seen.Now))
		if b.Answers != nil {
			add(finding.List{answersWait(b, seen.Now)})
		}
	}
	add(answersLate(seen.Late))
	for n, its := range seen.Instances {
		add(ofInstance(&st.Instances[n], its, seen))
	}
	for _, g := range seen.Gateways {
		add(ofGateway(st, g, seen.Now))
	}
	if seen.Served == 0 {
		st.Findings.Add(finding.NoGateway, "", "no gateway is enrolled", Line(ops.Enroll.Row, "home"))
	}
	if len(st.Bots) == 0 {
		st.Findings.Add(finding.NoBot, "", "no bot is configured", "hermes-connector setup")
	}
	for _, i := range seen.Unreached {
		st.Findings.Add(finding.NobodyBound, "gateway "+string(i), "nobody is linked to it", Line(ops.Link.Row, string(i)))
	}
	for _, p := range seen.Programs {
		st.Findings.Add(finding.ProgramAstray, "program "+p.Caller, "no gateway serves its agent "+p.Agents[0],
			"enroll the gateway again and run "+quoted(ops.AllowCaller.Row, p.Caller, p.Agents[0])+", or run "+quoted(ops.DenyCaller.Row, p.Caller, p.Agents[0]))
	}
	for _, n := range seen.Networks {
		bot, p := "configure a bot for "+string(n), string(n)
		if i := seen.Bound[n]; i != "" {
			st.Findings.Add(finding.BindingAstray, p, "somebody is linked to "+string(i)+" on "+p+", and no bot is configured there",
				bot+", or "+quoted(ops.Unbind.Row, string(i), p, "PERSON"))
		}
		if i := seen.Granted[n]; i != "" {
			st.Findings.Add(finding.GrantAstray, p, "a chat on "+p+" belongs to "+string(i)+", and no bot is configured there",
				bot+", or "+quoted(ops.Release.Row, string(i), p, "CHAT"))
		}
	}
}

// ofBot returns the findings about a bot's connection. The network's words contain no secret.
func ofBot(b manage.BotStatus, now time.Time) (out finding.List) {
	about := relay.Bot{Platform: b.Platform, ID: b.ID}.String()
	look := "run " + quoted(ops.Diagnose.Row) + ", which asks the network itself"
	switch {
	case b.State == platforms.BadCredentials:
		out.Add(finding.DeadToken, about, cmp.Or(b.Reason, "the network refuses its token"),
			"put the bot's current token into its token file, then run "+quoted(ops.Reload.Row))
	case b.State == platforms.Degraded:
		out.Add(finding.BotDegraded, about, cmp.Or(b.Reason, "it is degraded"), look)
	case b.State == platforms.Connecting && !b.Since.IsZero() && now.Sub(b.Since) > longTrying:
		what := "it has not connected since " + finding.Stamp(b.Since)
		if b.Reason != "" {
			what += ": " + b.Reason
		}
		out.Add(finding.BotUnreached, about, what, look)
	}
	if len(b.Warnings) > 0 {
		out.Add(finding.CallsDoubted, about, strings.Join(b.Warnings, "; "), quoted(ops.Explain.Row)+" shows the refused calls")
	}
	return out
}

// ofInstance returns the findings about an instance's connection, its buffer and what it was given; it adds some of
// them to the warnings of i, too.
func ofInstance(i *manage.InstanceStatus, its manage.SeenInstance, seen manage.Seen) (out finding.List) {
	name := string(i.ID)
	add := func(k *finding.Kind, what, fix string) { out = append(out, k.Of("gateway "+name, what, fix)) }
	warn := func(words string) { i.Warnings = append(i.Warnings, words) }
	note, end, wanted := meant(its.Instance, seen.Now)
	if wanted {
		i.Notes = append(i.Notes, note)
	}
	_, _, lately := meant(its.Instance, seen.Now.Add(-longWaiting)) // quiet hours have just ended: the gateway may need a while
	out = ofRoom(*i, its.Lane, seen.Limits, end)
	if i.Warning == "copied_credential" {
		add(finding.Copied, "two programs connect with its credential and push each other out", copied(i.ID))
		warn("two programs connect with its credential and push each other out: " + copied(i.ID))
	}
	if bots := its.Waiting.Bots; bots != nil {
		add(finding.NotFronted, "messages of "+names(bots)+" wait", unserved(its.Waiting))
		warn("messages of " + names(bots) + " wait: " + unserved(its.Waiting))
	}
	if bots := its.People.Bots; bots != nil {
		add(finding.NotFronted, "people on "+names(bots)+" are linked to it, and it does not serve that bot", unserved(its.People))
		warn("people on " + names(bots) + " are linked to " + name + ", and their messages will wait: " + unserved(its.People))
	}
	if its.NotFetched {
		how := "a gateway fetches files only from the address it connects to. Is that " + seen.URL + ", without a path before /relay? A proxy must pass /relay/media/ on, and send X-Forwarded-Proto and X-Forwarded-Host if trusted_proxies names it"
		add(finding.FilesUnfetched, "it took many messages with files and fetched no file", how)
		warn("its gateway took many messages with files and fetched no file: " + how)
	}
	if its.Instance.WakeFault != "" {
		add(finding.WakeUnusable, its.Instance.WakeFault, "put a usable wake URL into the gateway's .env and restart the gateway")
	}
	if i.State != manage.Connected && !wanted && !lately && i.Backlog > 0 && seen.Now.Sub(i.OldestAt) >= longWaiting {
		kind, what := finding.GatewayAway, "it has never connected"
		if !i.LastSeenAt.IsZero() {
			what = "it has not connected since " + finding.Stamp(i.LastSeenAt)
			if seen.Now.Sub(i.LastSeenAt) > longSilence {
				kind = finding.GatewaySilent
			}
		}
		add(kind, what+", and "+manage.Counted(i.Backlog, "message waits", "messages wait")+" for it",
			"start the gateway; "+quoted(ops.Gateway.Row, name)+" shows its details")
	}
	if i.Poke != nil && !i.Poke.Woken && i.State != manage.Connected {
		add(finding.WakeFailing, "its wake URL "+i.Poke.String(), "let the wake URL answer a GET with a status below 400; allow under [wake] permits addresses of your own network")
	}
	if i.Dead > 0 {
		out = append(out, lettersOf(*i, its.Dead))
	}
	return out
}

// copied returns the fix for two programs that use the credential of one gateway.
func copied(i relay.InstanceID) string {
	return "stop one of the two, or give the second its own credential with " + quoted(ops.Enroll.Row, "OTHER-NAME") + "; if a stranger has the credential, run " + quoted(ops.Rotate.Row, string(i))
}

// ofGateway returns the findings about a gateway's credential and about the dials in the gateway's name. It adds the
// findings about dials to the warnings in st, too.
func ofGateway(st *manage.Status, g manage.SeenGateway, now time.Time) (out finding.List) {
	out = ofDials(g)
	for n, i := range st.Instances {
		if i.ID == g.Instance && len(out) > 0 && out[0].Wrong() {
			st.Instances[n].Warnings = append(i.Warnings, out[0].What+"; "+out[0].Fix)
		}
	}
	out = append(out, ofRotation(g, now)...)
	about := "gateway " + string(g.ID)
	switch {
	case g.Revoked:
	case g.LastSeenAt.IsZero() && g.Refused > 0: // the finding about its refused dials says more than that it never connected
	case g.LastSeenAt.IsZero():
		out.Add(finding.NeverDialled, about, "it has never connected",
			"put the lines that enroll printed into the gateway's .env and start the gateway; "+quoted(ops.Rotate.Row, string(g.ID))+" prints new ones")
	case g.TooOld:
		out.Add(finding.TooOldForFiles, about, "it is too old to fetch files: it took a message with a file, did not fetch the file, and has used no newer operation (edit, typing, react, send_media, prompt)", "update Hermes on the gateway's machine")
	}
	return out
}

// names returns a list of bots for people.
func names(bots []relay.Bot) string {
	all := make([]string, len(bots))
	for i, b := range bots {
		all[i] = b.String()
	}
	return strings.Join(all, ", ")
}

// unserved says which lines of `enroll` are missing in the .env of a gateway that does not serve bots.
func unserved(u manage.Unserved) string {
	if !u.Hosted {
		return "that bot is no longer configured here"
	}
	return "the gateway does not serve that bot. Its .env needs " + strings.Join(u.Env, " and ") +
		" (a gateway of June 2026: GATEWAY_RELAY_PLATFORM=" + string(relay.RelayPlatform) + " and no GATEWAY_RELAY_BOT_ID)"
}
