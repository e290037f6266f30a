package hub

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// night is a gateway that comes to what was said while it was away, in virtual time, and the network where it was said.
type night struct {
	*socketFlip
	network *local.Network
	bot     relay.Bot
	in      platforms.Inbox
}

func atNight(t *testing.T, test func(t *testing.T, n *night)) {
	t.Helper()
	network := local.NewNetwork()
	p := local.NewLoopback(network, nil)
	inBubble(t, true, []platforms.Bot{p}, func(t *testing.T, f *socketFlip, _ bus.Bus) {
		must.Succeed(t, f.db.Bind(t.Context(), nil, store.Binding{Platform: local.LoopbackID, User: "ann", Instance: "home", BoundAt: time.Now()}))
		test(t, &night{f, network, p.ID(), f.hub.in.Inbox(p.ID())})
	})
}

// said is what ann says in a chat; what begins with "fwd " she forwards.
func (n *night) said(chat relay.ChatID, texts ...string) {
	n.t.Helper()
	for _, text := range texts {
		n.appended++
		id := relay.MessageID(text)
		typ := relay.ChatGroup
		if strings.HasPrefix(string(chat), "@") {
			typ = relay.ChatDM
		}
		ev := relay.Event{
			ID: relay.EventID(id), MessageID: id, Bot: n.bot, At: time.Now(), Type: relay.TypeText, Text: text,
			Source: relay.Source{Platform: local.LoopbackID, ChatID: chat, ChatType: typ, UserID: "ann", MessageID: id},
			Traits: relay.Traits{Forwarded: strings.HasPrefix(text, "fwd ")},
		}
		must.Succeed(n.t, n.in.Accept(n.t.Context(), platforms.Batch{Events: []relay.Event{ev}}))
	}
}

// wantTexts checks what the gateway was given so far, and acknowledges it.
func (n *night) wantTexts(want ...string) {
	n.t.Helper()
	synctest.Wait()
	n.live.mu.Lock()
	got, held := append([]string{}, n.live.texts...), n.live.held
	n.live.held = nil
	n.live.mu.Unlock()
	if diff := cmp.Diff(want, got); diff != "" {
		n.t.Errorf("given (-want +got):\n%s", diff)
	}
	for _, id := range held {
		n.say(wire.InboundAck{Buffer: id})
		synctest.Wait()
	}
}

func (n *night) asks(a relay.Action) {
	n.t.Helper()
	n.say(wire.Outbound{Request: relay.Request{ID: "r", Action: a}})
	synctest.Wait()
}

// TestANightsMessagesAreAConversation: what one person said in a row is one event, and the next comes when the turn is over.
func TestANightsMessagesAreAConversation(t *testing.T) {
	atNight(t, func(t *testing.T, n *night) {
		n.said("@ann", "one", "two", "three", "/status", "four")
		time.Sleep(time.Hour)
		n.connect()
		n.wantTexts("one\ntwo\nthree")
		if l, err := n.db.Lanes.State(t.Context(), "home"); err != nil || l.Entries != 2 {
			t.Errorf("%d entries are left, %v; want those that were not given", l.Entries, err)
		}
		delivered := 0
		for _, d := range n.hub.Decisions() { // each is told of by itself
			if !d.DeliveredAt.IsZero() {
				delivered++
			}
		}
		if delivered != 3 {
			t.Errorf("%d events are said to be delivered, want 3", delivered)
		}
		n.wantTexts("one\ntwo\nthree")
		n.asks(relay.Send{Chat: "@ann", Content: "to all three", Meta: relay.Metadata{Notify: true}})
		n.wantTexts("one\ntwo\nthree")
		time.Sleep(3 * time.Second)
		n.wantTexts("one\ntwo\nthree", "/status")
		n.said("@ann", "five")
		time.Sleep(45 * time.Second) // it does not answer
		n.wantTexts("one\ntwo\nthree", "/status", "four\nfive")
		n.said("@ann", "six")
		n.wantTexts("one\ntwo\nthree", "/status", "four\nfive", "six") // live, into the turn
	})
}

// TestOneByOne: to a gateway that acknowledges when it is done nothing comes as one, and nothing waits for a turn, but for the end
// of quiet hours.
func TestOneByOne(t *testing.T) {
	atNight(t, func(t *testing.T, n *night) {
		n.said("@ann", "one", "two", "/status", "three")
		time.Sleep(time.Hour)
		n.dial()
		n.say(wire.Hello{Platform: relay.RelayPlatform, OneByOne: true, Manifest: []json.RawMessage{}})
		time.Sleep(startTime)
		n.wantTexts("one")
		n.wantTexts("one", "two")
		n.wantTexts("one", "two", "/status")
		n.wantTexts("one", "two", "/status", "three")
		n.quiet("00:00-07:00")
		n.said("@ann", "four", "five")
		n.wantTexts("one", "two", "/status", "three")
		time.Sleep(7 * time.Hour)
		n.wantTexts("one", "two", "/status", "three", "four")
		n.wantTexts("one", "two", "/status", "three", "four", "five")
	})
}

// TestAForwardedMessageComesByItself: its words may be another person's, and that must still be known when it is read from
// the disk.
func TestAForwardedMessageComesByItself(t *testing.T) {
	atNight(t, func(t *testing.T, n *night) {
		n.said("@ann", "one", "fwd two", "three", "four")
		time.Sleep(time.Hour)
		n.connect()
		n.wantTexts("one")
		time.Sleep(45 * time.Second)
		n.wantTexts("one", "fwd two")
		time.Sleep(45 * time.Second)
		n.wantTexts("one", "fwd two", "three\nfour")
	})
}

// TestWhatEndsATurn: what a gateway does in the chat where the turn runs.
func TestWhatEndsATurn(t *testing.T) {
	t.Parallel()
	const soon, silence = 3 * time.Second, 45 * time.Second
	notify := relay.Metadata{Notify: true}
	for name, tc := range map[string]struct {
		do   []relay.Action
		want time.Duration
	}{
		"the last answer":                {[]relay.Action{relay.Send{Chat: "@ann", Content: "x", Meta: notify}}, soon},
		"an answer that is not the last": {[]relay.Action{relay.Send{Chat: "@ann", Content: "x"}}, silence},
		"one that cannot be sent":        {[]relay.Action{relay.Send{Chat: "@eve", Content: "x", Meta: notify}}, silence},
		"an answer elsewhere":            {[]relay.Action{relay.Send{Chat: "@bob", Content: "x", Meta: notify}}, silence},
		"a closing reaction":             {[]relay.Action{relay.Send{Chat: "@ann", Content: "x"}, relay.React{Chat: "@ann", Message: "1", Emoji: "✅"}}, soon},
		"one of what is put off":         {[]relay.Action{relay.React{Chat: "@ann", Message: "1", Emoji: "👀"}, relay.React{Chat: "@ann", Message: "1", Emoji: "👀", Remove: true}, relay.React{Chat: "@ann", Message: "1", Emoji: "✅"}}, silence},
		"a reaction that says: I work":   {[]relay.Action{relay.Send{Chat: "@ann", Content: "x"}, relay.React{Chat: "@ann", Message: "1", Emoji: "👀"}}, silence},
		"typing":                         {[]relay.Action{relay.Typing{Chat: "@ann"}}, silence},
	} {
		t.Run(name, func(t *testing.T) {
			atNight(t, func(t *testing.T, n *night) {
				n.said("@ann", "/one", "two")
				time.Sleep(time.Hour)
				n.connect()
				n.wantTexts("/one")
				time.Sleep(time.Second)
				for _, a := range tc.do {
					n.asks(a)
				}
				began := time.Second // what is not about the chat is no sign of life there
				if name == "an answer elsewhere" || name == "one that cannot be sent" {
					began = 0
				}
				time.Sleep(tc.want - time.Second + began - time.Millisecond)
				n.wantTexts("/one")
				time.Sleep(time.Millisecond)
				n.wantTexts("/one", "two")
			})
		})
	}
}

// TestALastAnswerThatIsNotSent ends its turn too, unless the gateway will try again.
func TestALastAnswerThatIsNotSent(t *testing.T) {
	for name, tc := range map[string]struct {
		fails    string
		declined bool
		want     time.Duration
	}{
		"the network refuses it":    {fails: "Forbidden: bot was blocked by the user", want: 3 * time.Second},
		"it is worth another try":   {fails: "network: down", want: 45 * time.Second},
		"the gateway may not speak": {declined: true, want: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			atNight(t, func(t *testing.T, n *night) {
				n.network.Join("#room", "ann")
				n.said("#room", "/one", "two")
				if tc.declined {
					n.network.Leave("#room", "ann")
				} else {
					n.network.FailNext(&relay.ActionError{Outcome: relay.NotSent, Public: tc.fails})
				}
				time.Sleep(time.Hour)
				n.connect()
				n.wantTexts("/one")
				n.asks(relay.Send{Chat: "#room", Content: "x", Meta: relay.Metadata{Notify: true}})
				if acts := n.network.Acts(); len(acts) > 0 {
					t.Errorf("it was sent: %v", acts)
				}
				time.Sleep(tc.want - time.Millisecond)
				n.wantTexts("/one")
				time.Sleep(time.Millisecond)
				n.wantTexts("/one", "two")
			})
		})
	}
}

// TestAnApprovalDoesNotWaitForItsTurn, which waits for it.
func TestAnApprovalDoesNotWaitForItsTurn(t *testing.T) {
	atNight(t, func(t *testing.T, n *night) {
		n.said("@ann", "one", "/status")
		time.Sleep(time.Hour)
		n.connect()
		n.wantTexts("one")
		n.said("@ann", "two", "/approve", "/stop")
		n.wantTexts("one", "/approve")
		n.wantTexts("one", "/approve", "/stop")
		time.Sleep(45 * time.Second)
		n.wantTexts("one", "/approve", "/stop", "/status")
		time.Sleep(45 * time.Second)
		n.wantTexts("one", "/approve", "/stop", "/status", "two")
	})
}

// TestAfterACrashTheOneInDoubtComesWithMore.
func TestAfterACrashTheOneInDoubtComesWithMore(t *testing.T) {
	atNight(t, func(t *testing.T, n *night) {
		n.said("@ann", "one", "two")
		n.connect()
		synctest.Wait()
		n.said("@ann", "three")
		n.deaths = map[string]int{}
		n.lose(errors.New("cut"))
		n.connect()
		n.wantTexts("one\ntwo\nthree")
		if l, err := n.db.Lanes.State(t.Context(), "home"); err != nil || l.Entries != 0 {
			t.Errorf("%d entries are left, %v", l.Entries, err)
		}
		if got := n.hub.Counters()["ack"]; got != 3 {
			t.Errorf("%d entries count as acknowledged, want each", got)
		}
	})
}
