package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/inbound"
	"github.com/hermes-connector/hermes-connector/relay/outbound"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// step is one world: something changes, time passes, something is said, and everybody tries to act.
func (h *history) step() {
	h.wait(time.Millisecond) // two bindings at one instant have no first
	h.change()
	h.wait(pick(h.draw, "pause", []time.Duration{
		time.Millisecond, visibility.Believed, time.Millisecond, time.Millisecond, 20 * 24 * time.Hour, visibility.Believed, 31 * 24 * time.Hour,
	}))
	said := h.say()
	if len(h.waiting) > 0 && pick(h.draw, "network answers", []bool{true, true, false}) {
		h.judge()
	}
	h.act(said)
	if pick(h.draw, "somebody asks", []bool{true, false}) {
		h.ask(said)
	}
	if pick(h.draw, "a message is touched", []bool{true, false, false}) {
		h.touch(said)
	}
	if pick(h.draw, "somebody reacts", []bool{true, false}) {
		h.react(said)
	}
	if pick(h.draw, "an answer waits", []bool{false, true, false, false}) {
		h.waits(said)
	}
	if pick(h.draw, "files are read", []bool{false, false, true, false, false, false, false, false}) {
		h.read(said)
	}
}

// change draws one change of what is stored or of what the networks say.
func (h *history) change() {
	a := h.agents[pick(h.draw, "agent", h.ids)]
	if !a.live {
		h.enroll(a)
		return
	}
	switch p := pick(h.draw, "platform", []relay.PlatformID{tell, tell, tell, mute, relay.ProgramPlatform}); pick(h.draw, "change", often(
		1, "nothing", 8, "sight", 6, "bind", 6, "claim", 3, "principal", 3, "relevance", 1, "unbind", 1, "release", 1, "prefer", 1, "lose", 1, "revoke", 2, "ack",
	)) {
	case "bind":
		b := bond{platform: p, user: pick(h.draw, "user", h.people), agent: a.id}
		if p == mute && pick(h.draw, "dm chat known", []bool{true, false}) {
			b.dmChat = relay.ChatID("@" + b.user)
		}
		if b.commands = h.commands(); p == relay.ProgramPlatform { // the operator lets a program in
			prog := relay.Program{Caller: "cron", Agent: a.id}
			b = bond{platform: p, user: prog.User(), agent: a.id, dmChat: prog.Chat("main")}
		}
		err := h.db.Bind(h.t.Context(), nil, store.Binding{Platform: p, User: b.user, Instance: a.id, DMChat: b.dmChat, Commands: strings.Fields(b.commands)})
		if _, refused := errors.AsType[*store.CommandTaken](err); refused != h.taken(b) {
			h.fail("%s to %s for %q: %v\n%s", b.user, b.agent, b.commands, err, h)
		} else if !refused {
			h.ok(err)
		}
		h.bind(b)
	case "unbind":
		if len(h.bonds) > 0 {
			b := pick(h.draw, "bond", h.bonds)
			h.ok(h.db.Unbind(h.t.Context(), nil, b.agent, b.platform, b.user))
			h.unbind(b)
		}
	case "prefer":
		if len(h.bonds) > 0 {
			b := pick(h.draw, "bond", h.bonds)
			err := h.db.SetDMDefault(h.t.Context(), nil, b.agent, b.platform, b.user)
			if errors.Is(err, store.ErrCommandsOnly) && b.commands != "" {
				return
			}
			h.ok(err)
			h.prefer(slices.Index(h.bonds, b))
		}
	case "claim":
		if p != relay.ProgramPlatform { // where nothing is shared
			h.claim(p, a.id)
		}
	case "release":
		if all := h.held(); len(all) > 0 {
			at := pick(h.draw, "grant", all)
			h.ok(h.db.Release(h.t.Context(), nil, h.grants[at], at.Platform, at.Scope, at.Chat))
			delete(h.grants, at)
		}
	case "principal":
		a.principal = h.principal()
		h.update(a)
	case "relevance":
		h.relate(a, p)
	case "sight":
		h.look()
	case "lose":
		chat := pick(h.draw, "chat", h.chats)
		h.lost[chat] = !h.lost[chat]
	case "ack":
		h.ack(a)
	case "revoke":
		h.checkLane(a)
		_, err := h.db.Revoke(h.t.Context(), nil, a.id)
		h.ok(err)
		h.strip(a.id)
	}
}

// commands are what a binding is for: everything, or some commands.
func (h *history) commands() string {
	return pick(h.draw, "commands", often(6, "", 2, "/add", 1, "/add /backup", 1, "/backup /Add"))
}

func (h *history) enroll(a *agent) {
	a.live, a.principal = true, h.principal()
	i := store.Instance{ID: a.id, Tenant: a.tenant, Principal: a.principal, Label: a.label}
	h.ok(h.db.Enroll(h.t.Context(), nil, store.Gateway{ID: relay.GatewayID(a.id)}, i))
}

func (h *history) principal() store.Principal {
	listed := func() store.Person {
		return person(pick(h.draw, "platform", []relay.PlatformID{tell, mute}), pick(h.draw, "listed", h.people))
	}
	policy := pick(h.draw, "policy", often(3, string(relay.AnyOne), 3, string(relay.AllowList), 1, string(relay.OwnerOnly), 1, ""))
	return store.Principal{Policy: relay.PrincipalPolicy(policy), Allow: []store.Person{listed(), listed(), listed()}}
}

// claim tries to grant a chat, mostly in its own scope, or a whole scope. Who holds what is the
// store's to say.
func (h *history) claim(p relay.PlatformID, a relay.InstanceID) {
	at := h.place(p, pick(h.draw, "chat", h.chats))
	at.Parent = ""
	switch pick(h.draw, "as", often(4, "it is", 2, "whole", 1, "elsewhere")) {
	case "whole":
		at.Chat, at.Scope = "", cmp.Or(at.Scope, "park")
	case "elsewhere":
		at.Scope = pick(h.draw, "scope", []relay.ScopeID{"", "park", "mill"})
	}
	err := h.db.Claim(h.t.Context(), nil, store.Grant{Platform: at.Platform, Scope: at.Scope, Chat: at.Chat, Instance: a})
	if errors.Is(err, store.ErrHeld) {
		return
	}
	h.ok(err)
	h.grants[at] = a
}

// held are the places of the grants, in a fixed order.
func (h *history) held() []relay.Place {
	return slices.SortedFunc(maps.Keys(h.grants), func(a, b relay.Place) int {
		return cmp.Or(cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Chat, b.Chat))
	})
}

func (h *history) relate(a *agent, p relay.PlatformID) {
	rules := maps.Clone(a.relevance)
	if delete(rules, p); pick(h.draw, "declared", []bool{true, true, true, false}) {
		bools := []bool{false, true}
		if rules == nil {
			rules = make(map[relay.PlatformID]store.Relevance)
		}
		rules[p] = store.Relevance{
			RequireAddress: pick(h.draw, "require address", bools), AllowOtherBots: pick(h.draw, "allow bots", bools),
			OwnerMustAddress:   pick(h.draw, "owner must address", bools),
			FreeResponseScopes: []relay.ChatID{pick(h.draw, "free", h.chats)},
		}
	}
	a.relevance = rules
	h.update(a)
}

func (h *history) update(a *agent) {
	h.ok(h.db.UpdateInstance(h.t.Context(), nil, a.id, func(i *store.Instance) error {
		i.Principal, i.Relevance = a.principal, a.relevance
		return nil
	}))
}

// somewhere is a chat as one bot sees it, mostly the one that something was said in last:
// what changes there meets what the hub remembers.
func (h *history) somewhere() relay.Chat {
	if h.last.ID != "" && pick(h.draw, "same place", []bool{true, false}) {
		return h.last
	}
	if h.question.ID != "" && pick(h.draw, "where it was asked", []bool{true, false}) {
		return h.question
	}
	chats := append(slices.Clone(h.chats), "green.rose") // the one thread counts double
	bot := pick(h.draw, "bot", append(slices.Clone(h.bots), h.bots...))
	if bot.IsProgram() { // there are no others
		chats = h.programs
	}
	return relay.Chat{Bot: bot, ID: pick(h.draw, "chat", chats)}
}

// look changes what somebody, or everybody, sees of a chat, and prepares one of the hints a network
// could give about it.
func (h *history) look() {
	at, now := h.somewhere(), pick(h.draw, "view", []view{sees, sees, blind, 0})
	who := []relay.UserID{pick(h.draw, "user", h.people)}
	if pick(h.draw, "everybody", []bool{true, false}) {
		who = h.people
	}
	place := h.place(at.Bot.Platform, at.ID)
	hints := []string{"exact", "chat", "parent", "scope", "all"}
	if place.Parent != "" {
		hints = append(hints, "parent", "parent", "parent")
	}
	kind := pick(h.draw, "hint", hints)
	h.looked = at == h.last
	for _, u := range who {
		h.views[look{at.Bot, at.ID, u}] = now
		hint := platforms.RosterChange{Scope: place.Scope, Chat: at.ID, User: u}
		switch kind {
		case "chat":
			hint.User = ""
		case "parent":
			hint.Chat = cmp.Or(place.Parent, at.ID)
		case "scope":
			hint.Chat = ""
		case "all":
			hint = platforms.RosterChange{}
		}
		h.hints[at.Bot] = append(h.hints[at.Bot], hint)
	}
}

// say hands in an event, now and then two at once, compares the verdicts, and returns the chat.
func (h *history) say() relay.ChatID {
	at, twice := h.somewhere(), 4
	if h.looked { // what was remembered of the place is asked for again
		at, twice = h.last, 30
	}
	h.looked = false
	bot := at.Bot
	batch := platforms.Batch{Events: []relay.Event{h.event(at, true, twice)}}
	if pick(h.draw, "events", []int{1, 1, 1, 1, 1, 2}) == 2 {
		if at.ID = pick(h.draw, "chat", h.chats); bot.IsProgram() {
			at.ID = pick(h.draw, "chat", h.programs)
		}
		batch.Events = append(batch.Events, h.event(at, false, 4))
	}
	for n, ev := range batch.Events {
		h.attach(&batch.Events[n])
		h.shows(ev)
	}
	batch.Roster = h.hints[bot]
	delete(h.hints, bot)
	h.last = relay.Chat{Bot: bot, ID: batch.Events[0].Source.ChatID}
	h.hub.decisions = inbound.Decisions{}
	h.ok(h.hub.in.Inbox(bot).Accept(h.t.Context(), batch))
	got := h.hub.Decisions()
	for _, ev := range batch.Events {
		verdicts := h.verdicts(ev)
		if b, ok := h.codes[ev.Text]; ok && verdicts[""] == "control" {
			h.bind(b)
			h.seen[mark{ev.Bot, ev.ID}] = true
		}
		if named := h.called(ev); verdicts[named] != "" && named != "" { // it is the only one, if it may be spoken to
			i := slices.IndexFunc(got, func(d gate.Decision) bool { return d.Event == ev.ID && d.Instance == named })
			for id := range verdicts {
				if id != named && i >= 0 && (got[i].Reason == gate.Delivered || got[i].Reason == gate.Undecided) {
					verdicts[id] = "not_named"
				}
			}
		}
		for id, word := range verdicts {
			i := slices.IndexFunc(got, func(d gate.Decision) bool { return d.Event == ev.ID && d.Instance == id })
			if i < 0 {
				h.fail("no verdict on %s for %q, want %s\nevents: %+v\n%s", ev.ID, id, word, batch.Events, h)
			}
			if why := string(got[i].Reason); h.together(ev, why, func(other relay.EventID) bool {
				return slices.ContainsFunc(batch.Events, func(ev relay.Event) bool { return ev.ID == other })
			}) {
				word = why
			}
			verdicts[id] = h.checkVerdict(ev, id, string(got[i].Reason), word)
			got = slices.Delete(got, i, i+1)
		}
		h.heard(ev, verdicts)
	}
	if len(got) > 0 {
		h.fail("verdicts %+v too many\nevents: %+v\n%s", got, batch.Events, h)
	}
	return h.last.ID
}

// together: a press was judged before another one, which answered the prompt, was stored with it.
func (h *history) together(ev relay.Event, got string, with func(relay.EventID) bool) bool {
	if ev.Prompt == nil || got != "prompt_foreign" && got != "undecided" {
		return false
	}
	q := h.asked[askedAs{ev.Chat(), ev.Prompt.PromptID}]
	return q != nil && q.answered && q.in != ev.ID && with(q.in)
}

// shows: who writes in a shared chat sees it, and their network says so.
func (h *history) shows(ev relay.Event) {
	at := look{ev.Bot, ev.Source.ChatID, ev.Source.UserID}
	if at.user == "" || ev.Source.ChatType == relay.ChatDM || h.views[at] == sees {
		return
	}
	h.views[at] = sees
	h.hints[ev.Bot] = append(h.hints[ev.Bot], platforms.RosterChange{Scope: ev.Source.Scope, Chat: at.chat, User: at.user})
}

// checkVerdict compares a verdict with the oracle's word. One that needs the network may come later, and has
// to while an earlier event of the chat waits for it.
func (h *history) checkVerdict(ev relay.Event, id relay.InstanceID, got, want string) string {
	queued := slices.ContainsFunc(h.waiting, func(u undecided) bool {
		return u.inst == id && u.ev.Bot == ev.Bot && u.ev.Source.ChatID == ev.Source.ChatID
	})
	if later := want == "delivered" || want == "not_visible" || want == "prompt_foreign" || want == "undecided"; got == "undecided" && later && ev.Source.ChatType != relay.ChatDM {
		if q := h.asked[askedAs{ev.Chat(), cmp.Or(ev.Prompt, &relay.PromptResponse{}).PromptID}]; ev.Prompt != nil && q != nil && ev.Prompt.PromptMessageID == "" {
			answer := *ev.Prompt // it is about the question of now, and not about a later one under its id
			answer.PromptMessageID = q.message
			ev.Prompt = &answer
		}
		h.waiting = append(h.waiting, undecided{ev, id})
		return got
	}
	if got != want || got == "delivered" && queued && ev.Source.ChatType != relay.ChatDM {
		h.fail("%s for %q: %s, want %s; an earlier one waits: %t\n%s", ev.ID, id, got, want, queued, h)
	}
	if got == "delivered" {
		h.counts(ev)
	}
	return got
}

// tell makes the networks give the hints they owe.
func (h *history) tell() {
	for _, b := range h.bots {
		if hints := h.hints[b]; len(hints) > 0 {
			h.ok(h.hub.in.Inbox(b).Accept(h.t.Context(), platforms.Batch{Roster: hints}))
		}
		delete(h.hints, b)
	}
}

// judge lets the networks answer, and compares what becomes of the events that waited for them.
func (h *history) judge() {
	h.tell()
	h.hub.decisions = inbound.Decisions{}
	h.ok(judgeAll(h.t.Context(), h.hub))
	got := h.hub.Decisions()
	if len(got) != len(h.waiting) {
		h.fail("%d verdicts, want %d\n%s", len(got), len(h.waiting), h)
	}
	for _, d := range got {
		i := slices.IndexFunc(h.waiting, func(u undecided) bool { return u.ev.Bot == d.Bot() && u.ev.ID == d.Event && u.inst == d.Instance })
		if i < 0 {
			h.fail("a verdict on %s for %q, which does not wait\n%s", d.Event, d.Instance, h)
		}
		ev := h.waiting[i].ev
		none := "no_binding"
		if ev.Prompt != nil {
			none = "prompt_closed"
		}
		want := cmp.Or(h.candidates(ev)[d.Instance], none)
		if h.together(ev, string(d.Reason), func(other relay.EventID) bool {
			return slices.ContainsFunc(got, func(d gate.Decision) bool { return d.Event == other })
		}) {
			want = string(d.Reason)
		}
		if string(d.Reason) != want {
			h.fail("%s for %q at last: %s, want %s\n%s", d.Event, d.Instance, d.Reason, want, h)
		}
		if want == "delivered" {
			h.counts(ev)
		}
		h.heard(ev, map[relay.InstanceID]string{d.Instance: want})
		h.waiting = slices.Delete(h.waiting, i, i+1)
	}
}

// event draws what a bot hears: mostly something new and plain.
// twice weighs what was said last, said again.
func (h *history) event(where relay.Chat, links bool, twice int) relay.Event {
	bot, chat := where.Bot, where.ID
	kind := pick(h.draw, "kind", often(
		9, "plain", twice, "said twice", 1, "again", 1, "link", 1, "own", 1, "for another"))
	if bot.IsProgram() { // what it hands over is no command, no code, no press, and once
		h.events++
		src := relay.Source{Platform: bot.Platform, ChatID: chat, ChatType: relay.ChatDM, UserID: h.rooms[chat].whose, MessageID: "1"}
		return relay.Event{ID: relay.EventID(fmt.Sprint("e", h.events)), MessageID: "1", Bot: bot, At: time.Now(), Type: relay.TypeText, Text: "[context] /add", Source: src}
	}
	if kind == "again" && len(h.past) > 0 {
		ev := pick(h.draw, "past", h.past)
		ev.Bot, ev.Source.Platform = bot, bot.Platform // the same id for another bot is another event
		return ev
	}
	h.events++
	if kind == "said twice" && len(h.past) > 0 && h.past[len(h.past)-1].Bot == bot {
		ev := h.past[len(h.past)-1]
		ev.ID = relay.EventID(fmt.Sprint("e", h.events))
		return ev
	}
	author := pick(h.draw, "author", append(slices.Clone(h.people), ""))
	ev := relay.Event{
		ID: relay.EventID(fmt.Sprint("e", h.events)), MessageID: "1", Bot: bot, At: time.Now(), Type: relay.TypeText, Text: "hello",
		Traits: relay.Traits{
			AuthorIsBot: pick(h.draw, "author is a bot", []bool{false, false, true}),
			Addressed:   pick(h.draw, "addressed", []bool{true, false}), Own: kind == "own",
		},
	}
	switch pick(h.draw, "press", often(8, "none", 2, "a button", 8, "an answer", 1, "a typed one", 5, "a command")) {
	case "a button":
		ev.Traits.Press = true
	case "an answer":
		if kind != "link" {
			h.answer(&ev, relay.Chat{Bot: bot, ID: chat})
		}
	case "a command":
		ev.Text = pick(h.draw, "command", []string{"/add 7 35", "/add@bot", "/backup", "/backup now", "/Add", "/backups"})
	case "a typed one":
		ev.Text = pick(h.draw, "approval", []string{"/approve", "/deny@bot all", "/approve@bot session"})
	}
	if name := pick(h.draw, "by name", often(8, "", 1, "@kitchen", 1, "@a2", 1, "@b1:", 1, "@c1", 1, "@nobody")); name != "" && ev.Prompt == nil {
		ev.Text = name + " " + ev.Text
	}
	switch {
	case kind == "for another":
		ev.Traits.OtherCommand, ev.Text = true, "/new@other"
	case kind == "link" && links:
		if author = cmp.Or(author, "eve"); author == "eve" {
			ev.Text = "/link 7KQ2-9F4M" // a code that is none
			break
		}
		if id := pick(h.draw, "agent", h.ids); author != "cat" && h.agents[id].live {
			commands := h.commands()
			code, _, err := h.desk.Mint(h.t.Context(), audit.Actor{}, id, "", strings.Fields(commands)...)
			h.ok(err)
			chat, ev.Text, ev.Traits.AuthorIsBot = relay.ChatID("@"+author), "/link "+code, false
			h.codes[ev.Text] = bond{platform: bot.Platform, user: author, agent: id, dmChat: chat, commands: commands}
		}
	}
	at := h.place(bot.Platform, chat)
	ev.Source = relay.Source{
		Platform: bot.Platform, ChatID: chat, ChatType: h.rooms[chat].kind, UserID: author,
		Scope: at.Scope, ParentChatID: at.Parent, MessageID: "1",
	}
	if !strings.HasSuffix(ev.Text, "9F4M") && kind != "link" {
		h.past = append(h.past, ev)
		h.past = h.past[max(0, len(h.past)-4):]
	}
	return ev
}

// act lets everybody try to send to one chat, mostly the one something was said in, and compares who
// may, through which bot, and what those hear who may not.
func (h *history) act(said relay.ChatID) {
	chat := pick(h.draw, "chat to act on", append([]relay.ChatID{said, said, said, said, "", "nowhere"}, append(slices.Clone(h.programs), h.chats...)...))
	named := pick(h.draw, "bot to act with", append(slices.Clone(h.bots), relay.Bot{})) // the last: none is named
	h.tell()
	for _, id := range h.ids {
		h.actOn(h.agents[id], named, chat)
	}
}

func (h *history) actOn(a *agent, named relay.Bot, chat relay.ChatID) {
	want, may := h.carries(a, named, chat)
	before := make(map[relay.Bot]int)
	for b, s := range h.stages {
		before[b] = len(s.sent)
	}
	res, err := act(h.t.Context(), h.sessions[a.id], relay.Request{
		Platform: named.Platform, Bot: named.ID, Action: relay.Send{Chat: chat, Content: "hello"},
	})
	for _, b := range h.bots {
		sent := len(h.stages[b].sent) - before[b]
		if may && b == want && (err != nil || sent != 1) || (!may || b != want) && (sent != 0 || !may && err == nil) {
			h.fail("%s acts on %q, naming %q: %v, and %s sent %d; want %t by %s\n%s", a.id, chat, named, err, b, sent, may, want, h)
		}
	}
	h.acted++
	if may {
		h.posts = append(h.posts, post{relay.Chat{Bot: want, ID: chat}, res.MessageID, a.id, time.Now()})
		return
	}
	h.declined(a, named, chat, err)
}

// waits has an agent say something for the last time while its network is away. The world changes, and the network comes
// back: the answer is sent if its agent may write there then, and dropped if not; of one that nobody can judge it waits on.
func (h *history) waits(said relay.ChatID) {
	a := h.agents[pick(h.draw, "agent", h.ids)]
	chat := pick(h.draw, "chat to answer in", append([]relay.ChatID{said, said, said}, h.chats...))
	named := pick(h.draw, "bot to answer with", h.bots)
	h.tell()
	bot, may := h.carries(a, named, chat)
	if !may || !a.live {
		return
	}
	s := h.stages[bot]
	s.away = true
	res, err := act(h.t.Context(), h.sessions[a.id], relay.Request{
		ID: "r", Platform: named.Platform, Bot: named.ID, Action: relay.Send{Chat: chat, Content: "hello", Meta: relay.Metadata{Notify: true}},
	})
	if s.away = false; err != nil || !res.Queued {
		h.fail("%s answers in %q by %s, which is away: %+v, %v\n%s", a.id, chat, bot, res, err, h)
	}
	revoked := false
	for range 3 {
		h.wait(time.Millisecond)
		h.change()
		revoked = revoked || !a.live
	}
	h.tell()
	before, want := len(s.sent), 0
	if !revoked && h.mayAct(a.id, bot, chat) {
		want = 1
	}
	h.empty()
	if got := len(s.sent) - before; got != want {
		h.fail("%s answered in %q by %s, which is back, and %d were sent (dropped: %+v); want %d\n%s", a.id, chat, bot, got, h.hub.Outbox().Ended(), want, h)
	}
	h.waited++
	if want == 1 {
		h.posts = append(h.posts, post{relay.Chat{Bot: bot, ID: chat}, relay.MessageID(fmt.Sprint("m", len(s.sent))), a.id, time.Now()})
		return
	}
	_, err = h.db.DropAnswers(h.t.Context(), nil, a.id)
	h.ok(err)
	h.empty()
}

// empty sends what waits, as far as it can be sent now.
func (h *history) empty() {
	ctx, stop := context.WithCancel(h.t.Context())
	q := h.hub.Outbox()
	q.Recheck()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.Run(ctx)
	}()
	h.wait(time.Second)
	stop()
	<-ended
}

// counts notes a delivery.
func (h *history) counts(ev relay.Event) {
	h.delivered++
	if ev.Prompt != nil {
		h.pressed++
	}
}

// answer makes ev a press that answers a prompt of the chat, or one that nobody posted like that.
func (h *history) answer(ev *relay.Event, in relay.Chat) {
	ev.Prompt = &relay.PromptResponse{
		PromptID: pick(h.draw, "prompt", h.known(in)), OptionID: pick(h.draw, "option", often(5, "yes", 1, "never")),
	}
	ev.Traits.Press = true
	if q := h.asked[askedAs{in, ev.Prompt.PromptID}]; q != nil {
		ev.Prompt.PromptMessageID = pick(h.draw, "pressed message", []relay.MessageID{q.message, q.message, q.message, "", "another"})
	}
}

// known are the ids of prompts in the chat; all there may be if there is none.
func (h *history) known(in relay.Chat) []string {
	there := slices.DeleteFunc(slices.Clone(promptIDs), func(id string) bool { return h.asked[askedAs{in, id}] == nil })
	if len(there) == 0 {
		return promptIDs
	}
	return there
}

var promptIDs = []string{"p", "q"}

// ask lets everybody try to ask something in one chat, and compares who may, and whose id it was already.
func (h *history) ask(said relay.ChatID) {
	in := relay.Chat{Bot: pick(h.draw, "bot to ask with", h.bots), ID: cmp.Or(said, "hall")}
	id, kind := pick(h.draw, "prompt", promptIDs), pick(h.draw, "prompt kind", []string{"approval", "choice", "clarify"})
	h.tell()
	for _, i := range h.draws() {
		_, may := h.carries(h.agents[i], in.Bot, in.ID)
		q := h.asked[askedAs{in, id}]
		held := q != nil && q.by != i && !q.answered && time.Now().Before(q.until)
		before := len(h.stages[in.Bot].sent)
		res, err := act(h.t.Context(), h.sessions[i], relay.Request{Platform: in.Bot.Platform, Bot: in.Bot.ID, Action: relay.Prompt{
			Chat: in.ID, Content: "?", Kind: kind, PromptID: id, Options: []relay.PromptOption{{ID: "yes", Label: "Yes"}},
		}})
		if done := len(h.stages[in.Bot].sent) - before; (err == nil) != (may && !held) || (done == 1) != (may && !held) {
			h.fail("%s asks %s in %v: %v, %d posted; may %t, held %t\n%s", i, id, in, err, done, may, held, h)
		}
		switch {
		case !may:
			h.declined(h.agents[i], in.Bot, in.ID, err)
		case !held:
			h.question = in
			h.asked[askedAs{in, id}] = &question{by: i, kind: kind, message: res.MessageID, until: time.Now().Add(outbound.PromptFor)}
			h.posts = append(h.posts, post{in, res.MessageID, i, time.Now()})
		}
	}
}

// draws is everybody, beginning with somebody.
func (h *history) draws() []relay.InstanceID {
	n := slices.Index(h.ids, pick(h.draw, "first", h.ids))
	return append(slices.Clone(h.ids[n:]), h.ids[:n]...)
}

// touch lets everybody try to change a message: one that somebody sent, or one that nobody remembers.
func (h *history) touch(said relay.ChatID) {
	in := relay.Chat{Bot: pick(h.draw, "bot to touch with", h.bots), ID: cmp.Or(said, "hall")}
	m := relay.MessageID("old")
	if len(h.posts) > 0 && pick(h.draw, "a sent one", []bool{true, true, false}) {
		p := pick(h.draw, "message", h.posts[max(0, len(h.posts)-20):])
		in, m = p.in, p.id
	}
	deletes := pick(h.draw, "delete", []bool{true, false})
	var a relay.Action = relay.Edit{Chat: in.ID, Message: m, Content: "changed"}
	if deletes {
		a = relay.Delete{Chat: in.ID, Message: m}
	}
	for _, id := range h.ids {
		before := h.stages[in.Bot].touched
		_, err := act(h.t.Context(), h.sessions[id], relay.Request{Platform: in.Bot.Platform, Bot: in.Bot.ID, Action: a})
		_, may := h.carries(h.agents[id], in.Bot, in.ID)
		may = may && h.mayTouch(id, in, m, deletes)
		if done := h.stages[in.Bot].touched - before; (err == nil) != may || (done == 1) != may {
			h.fail("%s: %T of %s in %v: %v, %d done; want %t\nposts: %+v\n%s", id, a, m, in, err, done, may, h.posts, h)
		}
		if h.touched++; !may {
			h.declined(h.agents[id], in.Bot, in.ID, err)
			continue
		}
		if i := slices.IndexFunc(h.posts, func(p post) bool { return p.in == in && p.id == m }); i >= 0 && !deletes {
			h.posts[i].by, h.posts[i].at = id, time.Now() // what one edits is one's own from then on
		} else if !deletes {
			h.posts = append(h.posts, post{in, m, id, time.Now()})
		}
	}
}

// react lets everybody try to set or remove a reaction.
func (h *history) react(said relay.ChatID) {
	in := relay.Chat{Bot: pick(h.draw, "bot to react with", h.bots), ID: cmp.Or(said, "hall")}
	a := relay.React{Chat: in.ID, Message: "1", Emoji: pick(h.draw, "emoji", []string{"👀", "👍"}), Remove: pick(h.draw, "remove", []bool{false, true})}
	which := h.stages[in.Bot].Reaction(a)
	h.tell()
	for _, id := range h.draws() {
		before := h.stages[in.Bot].touched
		_, err := act(h.t.Context(), h.sessions[id], relay.Request{Platform: in.Bot.Platform, Bot: in.Bot.ID, Action: a})
		_, may := h.carries(h.agents[id], in.Bot, in.ID)
		may = may && h.mayReact(id, which, a.Remove)
		if done := h.stages[in.Bot].touched - before; (err == nil) != may || (done == 1) != may {
			h.fail("%s: %+v in %v: %v, %d done; want %t\nreactions: %+v\n%s", id, a, in, err, done, may, h.marks, h)
		}
		h.reacted++
		was, known := h.marks[which]
		switch {
		case !may:
			h.declined(h.agents[id], in.Bot, in.ID, err)
		case known && was.by != id && time.Now().Before(was.until): // it stands already
		case !a.Remove:
			h.marks[which] = reacted{id, time.Now().Add(48 * time.Hour)}
		case which.Name == "": // the next one may follow
			h.marks[which] = reacted{id, time.Now().Add(time.Minute)}
		default:
			delete(h.marks, which)
		}
	}
}

// declined compares what somebody hears who may not act.
func (h *history) declined(a *agent, named relay.Bot, chat relay.ChatID, err error) {
	answer := string(cmp.Or(named.Platform, a.hellos[0].Platform)) + " egress declined: target is not an approved destination for this connection"
	if ae := relay.Explain(err); ae.Public != answer || ae.Code != relay.CodeEgressDeclined || ae.Outcome != relay.NotSent {
		h.fail("%s acts on %q, naming %q: %+v, want %q", a.id, chat, named, ae, answer)
	}
}

// everybody tries to act everywhere, and every buffer is looked into.
func (h *history) everybody() {
	h.judge()
	for _, id := range h.ids {
		for _, chat := range append([]relay.ChatID{"", "nowhere"}, h.chats...) {
			for _, bot := range h.bots {
				h.actOn(h.agents[id], bot, chat)
			}
		}
		if h.agents[id].live {
			h.checkLane(h.agents[id])
		}
	}
}

// entriesAll are all that lie in a buffer.
var entriesAll store.EntryFilter

// checkLane compares what lies in a live agent's buffer with what was delivered.
func (h *history) checkLane(a *agent) {
	es, err := h.db.Lanes.Entries(h.t.Context(), a.id, entriesAll)
	h.ok(err)
	var got []relay.EventID
	for _, e := range es {
		got = append(got, e.About.ID)
	}
	var want []relay.EventID
	for _, e := range a.got {
		want = append(want, e.event)
	}
	if !slices.Equal(got, want) {
		h.fail("%s has the events %q, want %q\n%s", a.id, got, want, h)
	}
}

// String is the world, for a failure.
func (h *history) String() string {
	var out strings.Builder
	for _, id := range h.ids {
		fmt.Fprintf(&out, "%+v\n", *h.agents[id])
	}
	fmt.Fprintf(&out, "bonds: %+v\ngrants: %v\nsight: %v\nlost: %v\ntalks: %v", h.bonds, h.grants, h.views, h.lost, h.talks)
	return out.String()
}
