package manage

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	longSilence = 24 * time.Hour  // of a gateway for which messages wait
	longTrying  = 5 * time.Minute // of a bot that does not get through
)

// Look says how far to look.
type Look struct {
	Offline bool `json:"offline,omitempty"` // ask no network
}

// Diagnosis is what a Service sees wrong.
type Diagnosis struct {
	Run      string       `json:"run,omitempty"` // of the server, as its /healthz says; empty: none runs
	Findings finding.List `json:"findings"`      // the worst first
}

// Diagnose looks for what is wrong, and asks the networks how the bots stand there; that ends with ctx, or after
// examineWithin.
func (s *observer) Diagnose(ctx context.Context, l Look) (d Diagnosis, err error) {
	st, err := s.status(ctx, true)
	if err != nil {
		return d, err
	}
	d.Findings = append(finding.List{}, st.Findings...)
	if s.live != nil {
		d.Run = s.set.Run
	}
	if l.Offline {
		return d, nil
	}
	grants, err := s.db.Grants(ctx, store.GrantFilter{})
	if err != nil {
		return d, err
	}
	places := each(grants, func(g store.Grant) relay.Place {
		return relay.Place{Platform: g.Platform, Scope: g.Scope, Chat: g.Chat}
	})
	d.Findings = finding.Merge(Examine(ctx, s.bots(), places), d.Findings)
	return d, nil
}

// findings adds to st what is wrong, and sorts it. served are the instances that a gateway can serve.
func (s *observer) findings(ctx context.Context, st *Status, served []store.Instance, afresh bool) error {
	now := s.set.Now()
	for _, b := range st.Bots {
		st.Findings = append(st.Findings, ofBot(b, now)...)
	}
	for _, i := range st.Instances {
		st.Findings = append(st.Findings, ofInstance(i, s.live != nil, now)...)
		if i.Dead > 0 {
			reasons, err := s.db.Lanes.Reasons(ctx, i.ID)
			if err != nil {
				return err
			}
			st.Findings = append(st.Findings, lettersOf(i, reasons))
		}
	}
	gateways, err := s.db.Gateways(ctx)
	if err != nil {
		return err
	}
	for _, g := range gateways {
		st.Findings = append(st.Findings, s.ofGateway(st, g)...)
	}
	if len(served) == 0 {
		st.Findings.Add(finding.NoGateway, "", "no gateway is enrolled", "hermes-connector enroll NAME")
	}
	if len(st.Bots) == 0 {
		st.Findings.Add(finding.NoBot, "", "no bot is configured", "hermes-connector setup")
	}
	if err := s.reach(ctx, st, served); err != nil {
		return err
	}
	if s.set.Findings != nil {
		for _, f := range s.set.Findings(afresh) {
			st.Findings = append(st.Findings, f)
			switch f.Code {
			case finding.DatabaseStopped.Code, finding.FellBack.Code, finding.SetAside.Code, finding.Leftover.Code, finding.SnapshotFailed.Code:
				st.Warnings = append(st.Warnings, f.What)
			}
		}
	}
	finding.Sort(st.Findings)
	return nil
}

// ofBot is what is wrong with a bot's connection. The words of its network hold no secret.
func ofBot(b BotStatus, now time.Time) (out finding.List) {
	about := relay.Bot{Platform: b.Platform, ID: b.ID}.String()
	const look = "`hermes-connector doctor` asks the network"
	switch {
	case b.State == platforms.BadCredentials:
		out.Add(finding.DeadToken, about, cmp.Or(b.Reason, "the network refuses its token"),
			"put the bot's current token into its token file, then `hermes-connector reload`")
	case b.State == platforms.Degraded:
		out.Add(finding.BotDegraded, about, cmp.Or(b.Reason, "it is degraded"), look)
	case b.State == platforms.Connecting && !b.Since.IsZero() && now.Sub(b.Since) > longTrying:
		what := "it has not got through since " + finding.Stamp(b.Since)
		if b.Reason != "" {
			what += ": " + b.Reason
		}
		out.Add(finding.BotUnreached, about, what, look)
	}
	if len(b.Warnings) > 0 {
		out.Add(finding.CallsDoubted, about, strings.Join(b.Warnings, "; "), "`hermes-connector explain` shows the refused calls")
	}
	return out
}

// ofInstance is what is wrong with an instance's connection and buffer. running: a server runs, so that it could be
// connected.
func ofInstance(i InstanceStatus, running bool, now time.Time) (out finding.List) {
	name := string(i.ID)
	add := func(k *finding.Kind, what, fix string) { out = append(out, k.Of("gateway "+name, what, fix)) }
	if i.Warning == "copied_credential" {
		add(finding.Copied, "two programs dial with its credential and push each other out", copied(i.ID))
	}
	if i.State != Connected && i.Backlog > 0 && !i.LastSeenAt.IsZero() && now.Sub(i.LastSeenAt) > longSilence {
		what := "it has not been here since " + finding.Stamp(i.LastSeenAt) + ", and " + Counted(i.Backlog, "message waits", "messages wait") + " for it"
		add(finding.GatewaySilent, what, "start the gateway; `hermes-connector gateway show "+name+"` shows what is known of it")
	}
	if i.Poke != nil && !i.Poke.Woken && i.State != Connected {
		add(finding.WakeFailing, "its wake URL "+i.Poke.String(), "make the wake URL answer below 400 to a GET; addresses of your own network need [wake] allow")
	}
	return out
}

// copied is what helps when two programs have the credential of an instance's gateway.
func copied(i relay.InstanceID) string {
	return "stop one of the two, or `hermes-connector enroll OTHER-NAME` for the second; if a stranger has the credential, `hermes-connector gateway rotate " + string(i) + "`"
}

// ofGateway is what is wrong with a credential, and with the dials in its name, of which st warns too.
func (s *observer) ofGateway(st *Status, g store.Gateway) (out finding.List) {
	var dials token.Dials
	connected := false
	if s.live != nil { // only a running server knows
		dials, connected = s.auth.Dials(g.ID), s.live.Serves(g.ID, g.Instance)
	}
	out = ofDials(g, dials, connected)
	for n, i := range st.Instances {
		if i.ID == g.Instance && len(out) > 0 && out[0].Wrong() {
			if i.State != Connected { // by another gateway of its own
				st.Instances[n].RefusedAt = dials.Last.UTC()
			}
			st.Instances[n].Warnings = append(i.Warnings, out[0].What+"; "+out[0].Fix)
		}
	}
	out = append(out, ofRotation(g, dials, connected, s.set.Now())...)
	about := "gateway " + string(g.ID)
	switch {
	case g.Revoked:
	case g.LastSeenAt.IsZero() && dials.Refused > 0: // which says more
	case g.LastSeenAt.IsZero():
		out.Add(finding.NeverDialled, about, "it has never connected",
			"put the lines that enroll printed into the gateway's .env and start it; `hermes-connector gateway rotate "+string(g.ID)+"` prints new ones")
	case g.TooOld:
		out.Add(finding.TooOldForFiles, about, "it is too old to fetch files: it took a message with a file and left the file, and it has used none of the newer ops (edit, typing, react, send_media, prompt)", "update Hermes on the gateway's machine")
	}
	return out
}

// reach finds instances that nobody reaches, and bindings and grants that lead to no bot.
func (s *observer) reach(ctx context.Context, st *Status, served []store.Instance) error {
	hosted := make(map[relay.PlatformID]bool)
	for _, b := range st.Bots {
		hosted[b.Platform] = true
	}
	bound, granted := make(map[relay.PlatformID]relay.InstanceID), make(map[relay.PlatformID]relay.InstanceID)
	for _, i := range served {
		grants, err := s.db.Grants(ctx, store.GrantFilter{Instance: i.ID})
		if err != nil {
			return err
		}
		reached := len(grants) > 0
		for _, g := range grants {
			granted[g.Platform] = cmp.Or(granted[g.Platform], i.ID)
		}
		for _, k := range s.set.Kinds {
			one, err := s.db.Bindings(ctx, store.BindingFilter{Instance: i.ID, Platform: k.Name, Limit: 1})
			if err != nil {
				return err
			}
			if len(one) > 0 {
				reached, bound[k.Name] = true, cmp.Or(bound[k.Name], i.ID)
			}
		}
		if !reached { // nor by a network that this program does not speak any more
			all, err := s.db.Bindings(ctx, store.BindingFilter{Instance: i.ID})
			if err != nil {
				return err
			}
			reached = len(all) > 0
		}
		if !reached {
			st.Findings.Add(finding.NobodyBound, "gateway "+string(i.ID), "nobody is bound to it", "hermes-connector link "+string(i.ID))
		}
	}
	for _, k := range s.set.Kinds {
		if hosted[k.Name] || k.Own {
			continue
		}
		bot, p := "configure a bot for "+string(k.Name), string(k.Name)
		if i := bound[k.Name]; i != "" {
			st.Findings.Add(finding.BindingAstray, p, "somebody is bound to "+string(i)+" on "+p+", and there is no such bot",
				bot+", or `hermes-connector unbind "+string(i)+" "+p+" PERSON`")
		}
		if i := granted[k.Name]; i != "" {
			st.Findings.Add(finding.GrantAstray, p, "a chat on "+p+" is granted to "+string(i)+", and there is no such bot",
				bot+", or `hermes-connector scope release "+string(i)+" "+p+" CHAT`")
		}
	}
	return nil
}
