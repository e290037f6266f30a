package notify

import (
	"context"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// bot is a bot that remembers what it sent, and to where.
type bot struct {
	platforms.Bot
	id    relay.BotID
	state platforms.State
	err   error
	sent  []relay.Send
}

func (b *bot) ID() relay.Bot            { return relay.Bot{Platform: "chat", ID: b.id} }
func (b *bot) Status() platforms.Status { return platforms.Status{State: b.state} }

func (b *bot) Send(_ context.Context, a relay.Send) (relay.Result, error) {
	b.sent = append(b.sent, a)
	return relay.Result{}, b.err
}

// deriving is a bot of a network where a person's id is that of their direct chat, if it is a small letter.
type deriving struct{ *bot }

func (deriving) DirectUser(c relay.ChatID) (relay.UserID, bool) {
	return relay.UserID(c), strings.ToLower(string(c)) == string(c)
}

// sharing is a bot of a network where others have joined each direct chat.
type sharing struct{ *bot }

func (sharing) Shared(context.Context, relay.ChatID, relay.UserID) (bool, error) { return true, nil }

type linked []store.Binding

func (l linked) Bindings(_ context.Context, f store.BindingFilter) (out []store.Binding, _ error) {
	for _, b := range l {
		if b.Platform == f.Platform && b.User == f.User {
			out = append(out, b)
		}
	}
	return out, nil
}

func TestAPerson(t *testing.T) {
	up := func() *bot { return &bot{id: "1", state: platforms.Connected} }
	for name, tc := range map[string]struct {
		user  relay.UserID
		bot   platforms.Bot
		check string // what Check says; empty: nothing
		send  string // what Send says; empty: it went
		chat  relay.ChatID
	}{
		"whose direct chat was learned":  {"Ann", up(), "", "", "dm-ann"},
		"whose direct chat has their id": {"bob", deriving{up()}, "", "", "bob"},
		"whose direct chat nobody knows": {"Cid", deriving{up()}, "", "not known where", ""},
		"whose direct chat has others":   {"Ann", sharing{up()}, "", "alone", ""},
		"who is linked to nobody":        {"dan", deriving{up()}, "nobody by that id is linked", "nobody by that id is linked", ""},
		"whose bot is out":               {"bob", deriving{&bot{id: "1", state: platforms.Connecting}}, "no chat bot is connected", "", ""},
		"who blocked the bot":            {"Ann", &bot{id: "1", state: platforms.Connected, err: &relay.ActionError{Outcome: relay.NotSent, Public: "blocked by the user"}}, "", "blocked by the user", "dm-ann"},
		"who may have read it":           {"Ann", &bot{id: "1", state: platforms.Connected, err: &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}}, "", "", "dm-ann"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Person{Platform: "chat", User: tc.user, Bots: func() []platforms.Bot { return []platforms.Bot{tc.bot} }, Bindings: linked{
				{Platform: "other", User: "dan"}, {Platform: "chat", User: "Ann"}, {Platform: "chat", User: "Ann", DMChat: "dm-ann"},
				{Platform: "chat", User: "bob"}, {Platform: "chat", User: "Cid"},
			}}
			says := func(what string, err error, want string) {
				t.Helper()
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", what, err, want)
				}
			}
			says("check", p.Check(t.Context(), false), tc.check)
			ways := p.Ways()
			if len(ways) == 0 {
				if !strings.Contains(tc.check, "connected") {
					t.Error("there is no way")
				}
				return
			}
			if ways[0].Carries("chat:1") || !ways[0].Carries("chat:2") || !ways[0].Carries("gateway home") {
				t.Error("the way carries what is about its own bot, or does not carry the rest")
			}
			says("send", ways[0].Send(t.Context(), testMessage), tc.send)
			var b *bot
			switch is := tc.bot.(type) {
			case *bot:
				b = is
			case deriving:
				b = is.bot
			case sharing:
				b = is.bot
			}
			if got := len(b.sent) > 0; got != (tc.chat != "") || got && (b.sent[0].Chat != tc.chat || !strings.Contains(b.sent[0].Content, testMessage.Text)) {
				t.Errorf("sent %+v, want it in %q", b.sent, tc.chat)
			}
		})
	}
}
