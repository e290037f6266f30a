package hub

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/inbound"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/prompt"
	"github.com/hermes-connector/hermes-connector/store/storetest"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// asking is a stage that can ask with buttons.
type asking struct {
	*stage
	db    *store.DB
	fails error // of the next prompt
	moves relay.ChatID
	known []prompt.Record // what was stored when the last prompt was posted
	made  int
	gone  []string // "chat message" whose buttons were taken away
	stuck error    // of taking them away
}

func (a *asking) Prompt(ctx context.Context, p relay.Prompt) (relay.Result, error) {
	a.known, _ = a.db.Prompts.In(ctx, relay.Chat{Bot: a.bot, ID: p.Chat})
	if err := a.fails; err != nil {
		a.fails = nil
		return relay.Result{}, err
	}
	a.made++
	return relay.Result{MessageID: relay.MessageID(fmt.Sprint("q", a.made)), MovedTo: a.moves}, nil
}

func (a *asking) Unprompt(_ context.Context, chat relay.ChatID, m relay.MessageID) error {
	if a.stuck == nil {
		a.gone = append(a.gone, string(chat)+" "+string(m))
	}
	return a.stuck
}

// salon is a hub over a real database that does everything here and now, and can be stopped and begun anew. "home"
// and "kids" are ann's and eve's; "hall" is granted to "home", where anybody may speak, and whoever is asked about sees
// everything.
type salon struct {
	t        testing.TB
	db       *store.DB
	hub      *Hub
	bot      *asking
	attached map[relay.InstanceID]*attachment
	blind    bool // nobody sees anything
	mute     bool // the network does not say
	n        int
	told     []string        // what people read
	waited   []relay.EventID // presses that the network was told to be undecided
}

func newSalon(t testing.TB, o store.Options) *salon {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "hub-salon-") // where syncing costs nothing, if there is such a place
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return newSalonIn(t, dir, o)
}

// newSalonIn is newSalon with its database in that folder.
func newSalonIn(t testing.TB, dir string, o store.Options) *salon {
	t.Helper()
	db := storetest.Open(t, dir, o)
	p := &salon{t: t, db: db}
	p.bot = &asking{db: db, stage: &stage{bot: relay.Bot{Platform: tell, ID: "1"}, sees: func(relay.Place, relay.UserID) (bool, error) {
		if p.mute {
			return false, errNobodyKnows
		}
		return !p.blind, nil
	}}}
	ctx := t.Context()
	for inst, user := range map[relay.InstanceID]relay.UserID{"home": "ann", "kids": "eve"} {
		p.must(db.Enroll(ctx, nil, store.Gateway{ID: relay.GatewayID(inst), Newer: true}, store.Instance{ID: inst, Tenant: "t", Principal: store.Principal{Policy: relay.AnyOne}}))
		p.must(db.Bind(ctx, nil, store.Binding{Platform: tell, User: user, Instance: inst, DMChat: relay.ChatID("@" + user)}))
	}
	p.must(db.Claim(ctx, nil, store.Grant{Platform: tell, Chat: "hall", Instance: "home"}))
	p.begin()
	return p
}

func (p *salon) must(err error) {
	p.t.Helper()
	must.Succeed(p.t, err)
}

// begin starts a hub that remembers nothing but what is stored.
func (p *salon) begin() {
	p.t.Helper()
	p.hub = New(p.db, link.NewDesk(p.db, plainMAC{}, time.Now), &bus.Local{}, []platforms.Bot{p.bot}, Options{})
	p.attached = make(map[relay.InstanceID]*attachment)
	for _, inst := range []relay.InstanceID{"home", "kids"} {
		s := p.hub.newAttachment(nil, session.Peer{Gateway: relay.GatewayID(inst), Instance: inst, Tenant: "t"})
		p.must(p.hub.enter(s))
		s.say(p.bot.bot)
		p.attached[inst] = s
	}
	p.must(p.hub.out.Prompts.Resume(p.t.Context()))
	p.must(p.hub.in.Resume(p.t.Context()))
	p.settle()
}

// settle judges what is undecided, and runs the tasks that wait.
func (p *salon) settle() {
	p.t.Helper()
	p.must(judgeAll(p.t.Context(), p.hub))
	for p.hub.tasks.Waiting() > 0 {
		p.hub.tasks.Step(p.t.Context())
	}
}

// ask has an instance ask in a chat.
func (p *salon) ask(i relay.InstanceID, chat relay.ChatID, kind, id string, timeout float64) (relay.Result, error) {
	return act(p.t.Context(), p.attached[i], relay.Request{Platform: tell, Bot: "1", Action: relay.Prompt{
		Chat: chat, Content: "?", Kind: kind, PromptID: id, TimeoutS: timeout, Options: []relay.PromptOption{{ID: "yes", Label: "Yes, please"}, {ID: "no"}},
	}})
}

// mustAsk is the message with the buttons.
func (p *salon) mustAsk(i relay.InstanceID, chat relay.ChatID, kind, id string) relay.MessageID {
	p.t.Helper()
	res, err := p.ask(i, chat, kind, id, 0)
	p.must(err)
	return res.MessageID
}

// a press as the network brings it.
func (p *salon) press(u relay.UserID, chat relay.ChatID, id, option string, m relay.MessageID) relay.Event {
	p.n++
	ev := relay.Event{
		ID: relay.EventID(fmt.Sprint("e", p.n)), MessageID: relay.MessageID(fmt.Sprint("m", p.n)), Bot: p.bot.bot, At: time.Now(),
		Type: relay.TypeCommand, Text: "/" + option, Traits: relay.Traits{Press: true, Addressed: true},
		Prompt: &relay.PromptResponse{PromptID: id, OptionID: option, PromptMessageID: m},
		Source: relay.Source{Platform: tell, ChatID: chat, ChatType: relay.ChatGroup, UserID: u},
	}
	if chat[0] == '@' {
		ev.Source.ChatType = relay.ChatDM
	}
	return ev
}

// accept hands in events, and is what became of the newest: "instance reason".
func (p *salon) accept(evs ...relay.Event) string {
	p.t.Helper()
	p.hub.decisions = inbound.Decisions{}
	p.must(p.hub.in.Inbox(p.bot.bot).Accept(p.t.Context(), p.batch(evs...)))
	p.settle()
	return p.verdict(evs[len(evs)-1].ID)
}

func (p *salon) batch(evs ...relay.Event) platforms.Batch {
	return platforms.Batch{Events: evs, Refused: func(ev relay.EventID, words string) {
		p.told = append(p.told, string(ev)+": "+words)
	}, Undecided: func(ev relay.EventID) { p.waited = append(p.waited, ev) }}
}

// verdict is the last one about an event.
func (p *salon) verdict(ev relay.EventID) (out string) {
	for _, d := range p.hub.Decisions() {
		if d.Event == ev {
			out = fmt.Sprint(d.Instance, " ", d.Reason)
		}
	}
	return out
}

// ack acknowledges everything that waits for an instance, and returns the events.
func (p *salon) ack(i relay.InstanceID, forget ...bool) (evs []relay.Event) {
	p.t.Helper()
	all, err := p.db.Lanes.Entries(p.t.Context(), i, store.EntryFilter{})
	p.must(err)
	for _, e := range all {
		evs = append(evs, eventIn(p.t, e))
		p.must(p.db.Lanes.Ack(p.t.Context(), i, e.Buffer))
		if len(forget) == 0 { // else the process dies right after the commit
			p.attached[i].taken(p.t.Context(), e.About)
		}
	}
	p.settle()
	return evs
}
