package hub

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// The networks of the worlds. The bots of "tell" can say where a chat stands and whose direct
// messages it is, the bot of "mute" cannot. Their chats have the same names.
const (
	tell = relay.PlatformID("tell")
	mute = relay.PlatformID("mute")
)

// world is everything a verdict may depend on, as plainly as it can be written down: the model that
// the database and the networks are kept the same as, and that the oracle looks at.
type world struct {
	agents map[relay.InstanceID]*agent
	bonds  []bond                           // the first made first
	grants map[relay.Place]relay.InstanceID // of places without a parent
	views  map[look]view
	lost   map[relay.ChatID]bool // chats that not even "tell" can place now
	talks  map[talkKey]talk
	posts  []post // what agents sent, the newest last
	marks  map[relay.Reaction]reacted
	seen   map[mark]bool
	asked  map[askedAs]*question
	rooms  map[relay.ChatID]room
	files  map[string]*file // by what the network, or the agent, calls them
}

type agent struct {
	id        relay.InstanceID
	tenant    relay.TenantID
	label     string      // the name that people know it by
	hellos    []relay.Bot // the identities it said
	fronts    []relay.Bot // the bots behind them
	live      bool
	principal store.Principal
	relevance map[relay.PlatformID]store.Relevance
	got       []entry // since it was enrolled
	next      uint64  // sequence number of its next entry
}

// entry is an event in a buffer, and whose it is.
type entry struct {
	event relay.EventID
	by    store.Person
	files []string
}

// bond is a binding.
type bond struct {
	platform  relay.PlatformID
	user      relay.UserID
	agent     relay.InstanceID
	dmDefault bool
	dmChat    relay.ChatID
	commands  string // that it is for, with blanks between them; empty: for everything
}

// look is somebody looking at a chat, view what comes of it; the zero view is that nobody knows.
type (
	look struct {
		bot  relay.Bot
		chat relay.ChatID
		user relay.UserID
	}
	view int
)

const (
	_ view = iota
	sees
	blind
)

type (
	talkKey struct {
		agent relay.InstanceID
		bot   relay.Bot
		chat  relay.ChatID
	}
	// talk is a conversation: the owner whose event was delivered last, and when the last event was.
	talk struct {
		by relay.UserID
		at time.Time
	}
	// post is a message that an agent sent.
	post struct {
		in relay.Chat
		id relay.MessageID
		by relay.InstanceID
		at time.Time
	}
	// reacted is who set a reaction, and until when it is remembered.
	reacted struct {
		by    relay.InstanceID
		until time.Time
	}
	askedAs struct {
		in relay.Chat
		id string
	}
	// question is a prompt that an agent posted.
	question struct {
		by       relay.InstanceID
		kind     string
		message  relay.MessageID
		until    time.Time
		answered bool
		in       relay.EventID // the press that answered
	}
	mark struct {
		bot   relay.Bot
		event relay.EventID
	}
	room struct {
		scope  relay.ScopeID
		parent relay.ChatID
		kind   relay.ChatType
		whose  relay.UserID // of a direct chat
	}
)

// reason is a word that holds when its condition does.
type reason struct {
	when bool
	word string
}

// first is the first word that holds.
func first(rs ...reason) string {
	i := slices.IndexFunc(rs, func(r reason) bool { return r.when })
	return rs[i].word
}

func newWorld() *world {
	one, two, other := relay.Bot{Platform: tell, ID: "1"}, relay.Bot{Platform: tell, ID: "2"}, relay.Bot{Platform: mute, ID: "1"}
	all := []relay.Bot{one, two, other}
	program := func(a relay.InstanceID) (relay.ChatID, room) {
		p := relay.Program{Caller: "cron", Agent: a}
		return p.Chat("main"), room{kind: relay.ChatDM, whose: p.User()}
	}
	w := &world{
		agents: make(map[relay.InstanceID]*agent), grants: make(map[relay.Place]relay.InstanceID), views: make(map[look]view), lost: make(map[relay.ChatID]bool),
		talks: make(map[talkKey]talk), marks: make(map[relay.Reaction]reacted), seen: make(map[mark]bool), asked: make(map[askedAs]*question), files: make(map[string]*file),
		rooms: map[relay.ChatID]room{
			"@ann": {kind: relay.ChatDM, whose: "ann"}, "@bob": {kind: relay.ChatDM, whose: "bob"},
			"hall":       {kind: relay.ChatChannel},
			"green":      {scope: "park", kind: relay.ChatGroup},
			"green.rose": {scope: "park", parent: "green", kind: relay.ChatThread},
			"pond":       {scope: "park", kind: relay.ChatGroup},
			"loft":       {scope: "mill", kind: relay.ChatGroup},
		},
	}
	for _, a := range []relay.InstanceID{"a1", "b1"} {
		c, r := program(a)
		w.rooms[c] = r
	}
	for _, a := range []agent{
		{id: "a1", tenant: "a", label: "Kitchen", hellos: []relay.Bot{other, {Platform: tell}}, fronts: []relay.Bot{other, one, two}},
		{id: "a2", tenant: "a", hellos: all, fronts: all},
		{id: "b1", tenant: "b", hellos: []relay.Bot{{Platform: relay.RelayPlatform}}, fronts: all},
		{id: "c1", tenant: "c", hellos: []relay.Bot{two}, fronts: []relay.Bot{two}},
	} {
		a.next = 1
		a.fronts = append(slices.Clone(a.fronts), relay.ProgramBot()) // of which no hello speaks
		w.agents[a.id] = &a
	}
	return w
}

func person(p relay.PlatformID, u relay.UserID) store.Person {
	return store.Person{Platform: p, User: u}
}

func (w *world) place(p relay.PlatformID, chat relay.ChatID) relay.Place {
	r := w.rooms[chat]
	return relay.Place{Platform: p, Scope: r.scope, Chat: chat, Parent: r.parent}
}

// located: the network of the bot can say where the chat stands.
func (w *world) located(bot relay.Bot, chat relay.ChatID) bool {
	_, there := w.rooms[chat]
	return bot.Platform == tell && there && !w.lost[chat]
}

// direct is whose direct messages the chat is, as far as the network of the bot can say.
func (w *world) direct(bot relay.Bot, chat relay.ChatID) relay.UserID {
	if bot.Platform != tell {
		return ""
	}
	return w.rooms[chat].whose
}

// named: a grant of the agent's names the chat, in whatever scope.
func (w *world) named(a relay.InstanceID, p relay.PlatformID, chat relay.ChatID) bool {
	for at, holder := range w.grants {
		if holder == a && at.Platform == p && at.Chat == chat {
			return true
		}
	}
	return false
}

func (w *world) anyBond(a relay.InstanceID, p relay.PlatformID, ok func(bond) bool) bool {
	return slices.ContainsFunc(w.bonds, func(b bond) bool { return b.agent == a && b.platform == p && ok(b) })
}

func (w *world) bound(a relay.InstanceID, p relay.PlatformID, u relay.UserID) bool {
	return w.anyBond(a, p, func(b bond) bool { return b.user == u })
}

// whole: the person is bound to the agent for everything.
func (w *world) whole(a relay.InstanceID, p relay.PlatformID, u relay.UserID) bool {
	return w.anyBond(a, p, func(b bond) bool { return b.user == u && b.commands == "" })
}

// taken: another of the person's agents has one of the commands.
func (w *world) taken(b bond) bool {
	return slices.ContainsFunc(w.bonds, func(x bond) bool {
		return x.platform == b.platform && x.user == b.user && x.agent != b.agent &&
			slices.ContainsFunc(strings.Fields(b.commands), func(c string) bool { return slices.Contains(strings.Fields(x.commands), c) })
	})
}

// bind makes or changes a binding, unless a command of it is taken. One for commands that becomes one for everything begins
// to be that now.
func (w *world) bind(b bond) {
	if w.taken(b) {
		return
	}
	if i := slices.IndexFunc(w.bonds, func(x bond) bool { return x.platform == b.platform && x.user == b.user && x.agent == b.agent }); i >= 0 {
		x := w.bonds[i]
		b.dmChat, b.dmDefault = cmp.Or(b.dmChat, x.dmChat), x.dmDefault && b.commands == ""
		if x.commands == "" || b.commands != "" {
			w.bonds[i] = b
			return
		}
		w.bonds = slices.Delete(w.bonds, i, i+1)
	}
	w.bonds = append(w.bonds, b)
}

// unbind undoes a binding; what the person said and waits goes with it.
func (w *world) unbind(b bond) {
	w.bonds = slices.DeleteFunc(w.bonds, func(x bond) bool { return x == b })
	a := w.agents[b.agent]
	a.got = slices.DeleteFunc(a.got, func(e entry) bool {
		gone := e.by == person(b.platform, b.user)
		if gone {
			w.left(a.id, e)
		}
		return gone
	})
}

// prefer makes the i-th bond the one that gets its user's direct messages.
func (w *world) prefer(i int) {
	chosen := w.bonds[i]
	for j := range w.bonds {
		if b := &w.bonds[j]; b.platform == chosen.platform && b.user == chosen.user {
			b.dmDefault = j == i
		}
	}
}

// strip takes from an agent everything it was given.
func (w *world) strip(id relay.InstanceID) {
	w.bonds = slices.DeleteFunc(w.bonds, func(b bond) bool { return b.agent == id })
	maps.DeleteFunc(w.grants, func(_ relay.Place, holder relay.InstanceID) bool { return holder == id })
	maps.DeleteFunc(w.talks, func(k talkKey, _ talk) bool { return k.agent == id })
	w.posts = slices.DeleteFunc(w.posts, func(p post) bool { return p.by == id })
	maps.DeleteFunc(w.marks, func(_ relay.Reaction, r reacted) bool { return r.by == id })
	maps.DeleteFunc(w.asked, func(_ askedAs, q *question) bool { return q.by == id })
	a := w.agents[id]
	w.left(id, a.got...)
	for _, f := range w.files {
		delete(f.readers, id)
	}
	a.live, a.principal, a.relevance, a.got = false, store.Principal{}, nil, nil
}

// heard is what changes when the verdicts about ev are out.
func (w *world) heard(ev relay.Event, verdicts map[relay.InstanceID]string) {
	for id, word := range verdicts {
		if word == "undecided" {
			w.seen[mark{ev.Bot, ev.ID}] = true
		}
		if word != "delivered" {
			continue
		}
		a, k := w.agents[id], talkKey{id, ev.Bot, ev.Source.ChatID}
		t := talk{by: w.talks[k].by, at: time.Now()}
		if w.own(ev, w.holder(ev.Source.Place())) == id || ev.Prompt != nil && w.bound(id, ev.Source.Platform, ev.Source.UserID) {
			t.by = ev.Source.UserID
		}
		w.talks[k] = t
		if ev.Prompt != nil {
			q := w.asked[askedAs{ev.Chat(), ev.Prompt.PromptID}]
			q.answered, q.in = true, ev.ID
		}
		w.seen[mark{ev.Bot, ev.ID}] = true
		a.got = append(a.got, entry{ev.ID, person(ev.Source.Platform, ev.Source.UserID), refs(ev)})
		w.wants(id, refs(ev))
		a.next++
	}
}

// often is a list for pick, of words and how often each stands in it.
func often(weighted ...any) (words []string) {
	for i := 0; i < len(weighted); i += 2 {
		for range weighted[i].(int) {
			words = append(words, weighted[i+1].(string))
		}
	}
	return words
}

// pick draws one of xs.
func pick[T any](t *rapid.T, what string, xs []T) T { return rapid.SampledFrom(xs).Draw(t, what) }
