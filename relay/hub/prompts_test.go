package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/outbound"
	"github.com/hermes-connector/hermes-connector/store"
)

// What a person reads whose press reached nobody.
const (
	wordsForeign = "This question is not for you"
	wordsClosed  = "This question is closed"
)

// TestWhoMayPress: the press reaches the instance that asked, from its own people and from whom it admits where it
// holds the chat, and nobody else.
func TestWhoMayPress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		asks   relay.InstanceID
		chat   relay.ChatID
		kind   string
		user   relay.UserID
		change func(*salon, *relay.Event)
		want   string
		told   string
	}{
		"ann on her agent's approval":                 {"home", "hall", "approval", "ann", nil, "home delivered", ""},
		"eve, who has another agent, on a choice":     {"home", "hall", "choice", "eve", nil, "home delivered", ""},
		"a guest on a question":                       {"home", "hall", "clarify", "zoe", nil, "home delivered", ""},
		"a guest on an approval":                      {"home", "hall", "approval", "zoe", nil, "home prompt_foreign", wordsForeign},
		"eve on ann's approval":                       {"home", "hall", "approval", "eve", nil, "home prompt_foreign", wordsForeign},
		"a guest on what nobody knows":                {"home", "hall", "payment", "zoe", nil, "home prompt_foreign", wordsForeign},
		"a guest where no owner looks":                {"home", "hall", "choice", "zoe", func(p *salon, _ *relay.Event) { p.blind = true }, "home prompt_foreign", wordsForeign},
		"a guest where the network says nothing":      {"home", "hall", "choice", "zoe", func(p *salon, _ *relay.Event) { p.mute = true }, "home prompt_foreign", wordsForeign},
		"ann where no owner looks":                    {"home", "hall", "choice", "ann", func(p *salon, _ *relay.Event) { p.blind = true }, "home delivered", ""},
		"eve in her own direct chat":                  {"kids", "@eve", "approval", "eve", nil, "kids delivered", ""},
		"a guest whom the policy does not admit":      {"home", "hall", "choice", "zoe", func(p *salon, _ *relay.Event) { p.policy("home", relay.OwnerOnly) }, "home prompt_foreign", wordsForeign},
		"an option that was not offered":              {"home", "hall", "choice", "ann", func(_ *salon, ev *relay.Event) { ev.Prompt.OptionID = "all" }, "home prompt_closed", wordsClosed},
		"another message's":                           {"home", "hall", "choice", "ann", func(_ *salon, ev *relay.Event) { ev.Prompt.PromptMessageID = "7" }, "home prompt_closed", wordsClosed},
		"a message that the network does not name":    {"home", "hall", "choice", "ann", func(_ *salon, ev *relay.Event) { ev.Prompt.PromptMessageID = "" }, "home delivered", ""},
		"another chat's":                              {"home", "hall", "choice", "ann", func(_ *salon, ev *relay.Event) { ev.Source.ChatID = "yard" }, " prompt_closed", wordsClosed},
		"nobody asked":                                {"home", "hall", "choice", "ann", func(_ *salon, ev *relay.Event) { ev.Prompt.PromptID = "other" }, " prompt_closed", wordsClosed},
		"the agent is revoked":                        {"home", "hall", "choice", "ann", func(p *salon, _ *relay.Event) { p.revoke("home") }, " prompt_closed", wordsClosed},
		"ann is bound no more, and a guest as others": {"home", "hall", "choice", "ann", func(p *salon, _ *relay.Event) { p.unbind("home", "ann") }, "home prompt_foreign", wordsForeign}, // nobody is left who sees the chat
		"ann is bound no more":                        {"home", "hall", "approval", "ann", func(p *salon, _ *relay.Event) { p.unbind("home", "ann") }, "home prompt_foreign", wordsForeign},
		"the chat is another's now":                   {"home", "hall", "choice", "zoe", func(p *salon, _ *relay.Event) { p.regrant("hall", "kids") }, "home prompt_foreign", wordsForeign},
		"the chat is another's now, but ann is ann":   {"home", "hall", "choice", "ann", func(p *salon, _ *relay.Event) { p.regrant("hall", "kids") }, "home delivered", ""},
		"the chat has another id now":                 {"home", "hall", "choice", "zoe", func(p *salon, _ *relay.Event) { p.move("hall", "-100") }, "home delivered", ""},
		"the same numbers in the moved chat":          {"home", "hall", "choice", "ann", func(p *salon, ev *relay.Event) { p.move("hall", "-100"); ev.Source.ChatID = "-100" }, " prompt_closed", wordsClosed},
		"an option called link":                       {"home", "hall", "choice", "ann", func(_ *salon, ev *relay.Event) { ev.Text = "/link ABCD-EFGH" }, "home delivered", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newSalon(t, store.Options{})
				ev := p.press(tc.user, tc.chat, "p", "yes", p.mustAsk(tc.asks, tc.chat, tc.kind, "p"))
				if tc.change != nil {
					tc.change(p, &ev)
				}
				if got := p.accept(ev); got != tc.want {
					t.Errorf("%q, want %q", got, tc.want)
				}
				told := ""
				if tc.told != "" {
					told = string(ev.ID) + ": " + tc.told
				}
				if got := strings.Join(p.told, "|"); got != told {
					t.Errorf("read %q, want %q", got, told)
				}
			})
		})
	}
}

func (p *salon) policy(i relay.InstanceID, policy relay.PrincipalPolicy) {
	p.must(p.db.UpdateInstance(p.t.Context(), nil, i, func(x *store.Instance) error { x.Principal.Policy = policy; return nil }))
}

func (p *salon) revoke(i relay.InstanceID) {
	_, err := p.db.Revoke(p.t.Context(), nil, i)
	p.must(err)
}

func (p *salon) unbind(i relay.InstanceID, u relay.UserID) {
	p.must(p.db.Unbind(p.t.Context(), nil, i, tell, u))
}

func (p *salon) regrant(chat relay.ChatID, to relay.InstanceID) {
	p.must(p.db.Release(p.t.Context(), nil, "home", tell, "", chat))
	p.must(p.db.Claim(p.t.Context(), nil, store.Grant{Platform: tell, Chat: chat, Instance: to}))
}

func (p *salon) move(from, to relay.ChatID) {
	p.must(p.hub.in.Inbox(p.bot.bot).Accept(p.t.Context(), platforms.Batch{Moves: []platforms.Move{{From: from, To: to}}}))
}

// TestTheEventOfAPress: what the gateway reads, and that the label is the asker's word in full.
func TestTheEventOfAPress(t *testing.T) {
	p := newSalon(t, store.Options{})
	m := p.mustAsk("home", "hall", "choice", "p")
	ev := p.press("zoe", "hall", "p", "yes", "")
	ev.Prompt.Label = "Yes…"
	p.accept(ev)
	all := p.ack("home")
	if len(all) != 1 {
		t.Fatalf("%d events", len(all))
	}
	want := relay.PromptResponse{PromptID: "p", OptionID: "yes", Label: "Yes, please", PromptMessageID: m}
	if got := all[0]; *got.Prompt != want || got.Text != "/yes" || got.Type != relay.TypeCommand || got.Source.UserID != "zoe" || got.MessageID != ev.MessageID {
		t.Errorf("%+v, prompt %+v", got, got.Prompt)
	}
	if ev.Prompt.Label != "Yes…" {
		t.Error("the platform's own event was changed")
	}
}

// TestTheFirstPressWins: in one batch, over batches, over a restart, and a repeated one is no second.
func TestTheFirstPressWins(t *testing.T) {
	for _, who := range []relay.UserID{"ann", "zoe"} { // zoe's waits for the network's word
		t.Run(string(who), func(t *testing.T) { firstPressWins(t, who) })
	}
}

func firstPressWins(t *testing.T, who relay.UserID) {
	p := newSalon(t, store.Options{})
	m := p.mustAsk("home", "hall", "choice", "p")
	first, second := p.press(who, "hall", "p", "no", m), p.press("ann", "hall", "p", "yes", m)
	if got := p.accept(first, second, first); got != " duplicate" && got != "home delivered" {
		t.Errorf("the first, again: %q", got)
	}
	if a, b := p.reasons(first.ID), p.reasons(second.ID); !slices.Contains(a, "delivered") || !slices.Contains(b, "prompt_closed") || slices.Contains(b, "delivered") {
		t.Errorf("first %q, second %q", a, b)
	}
	before := p.db.Stats().Commits
	p.begin()
	third := p.press("ann", "hall", "p", "yes", m)
	if got := p.accept(third); got != "home prompt_closed" {
		t.Errorf("after a restart: %q", got)
	}
	if got := p.accept(first); got != " duplicate" {
		t.Errorf("the first, brought again: %q", got)
	}
	if n := p.db.Stats().Commits; n != before {
		t.Errorf("%d commits for presses that came to nothing", n-before)
	}
	if (who == "zoe") != slices.Contains(p.waited, first.ID) || slices.Contains(p.waited, third.ID) {
		t.Errorf("the network learnt that it is undecided about %q", p.waited)
	}
	if want := []string{string(second.ID) + ": " + wordsClosed, string(third.ID) + ": " + wordsClosed}; !slices.Equal(p.told, want) {
		t.Errorf("read %q, want %q", p.told, want)
	}
	if evs := p.ack("home"); len(evs) != 1 || evs[0].Prompt.OptionID != "no" {
		t.Errorf("delivered %+v", evs)
	}
}

func (p *salon) reasons(ev relay.EventID) (out []string) {
	for _, d := range p.hub.Decisions() {
		if d.Event == ev {
			out = append(out, string(d.Reason))
		}
	}
	return out
}

// TestNobodyIsToldTwice: not when the disk fails and the batch comes again; and they are told before the commit.
func TestNobodyIsToldTwice(t *testing.T) {
	p := newSalon(t, store.Options{})
	m := p.mustAsk("home", "hall", "approval", "p")
	ev := p.press("zoe", "hall", "p", "yes", m)
	ctx, cancel := context.WithCancel(t.Context())
	b := p.batch(ev)
	b.Cursor, b.Save = []byte("1"), true
	inner := b.Refused
	b.Refused = func(ev relay.EventID, words string) { cancel(); inner(ev, words) } // so that the commit fails
	in := p.hub.in.Inbox(p.bot.bot)
	if err := in.Accept(ctx, b); err == nil {
		t.Error("stored after all")
	}
	p.must(in.Accept(t.Context(), b))
	if want := []string{string(ev.ID) + ": " + wordsForeign}; !slices.Equal(p.told, want) {
		t.Errorf("read %q, want %q", p.told, want)
	}
}

// TestButtonsGo: when the press is stored, whether the gateway is there or not, over a crash right after the commit, and
// when the network was away; and on a press after the end, but never those of a question that is open.
func TestButtonsGo(t *testing.T) {
	for name, tc := range map[string]func(p *salon, m relay.MessageID){
		"stored": func(p *salon, m relay.MessageID) {
			p.accept(p.press("ann", "hall", "p", "yes", m))
		},
		"stored once the network had said who sees the chat": func(p *salon, m relay.MessageID) {
			p.accept(p.press("zoe", "hall", "p", "yes", m))
		},
		"crashed before they went": func(p *salon, m relay.MessageID) {
			p.must(p.hub.in.Inbox(p.bot.bot).Accept(p.t.Context(), p.batch(p.press("ann", "hall", "p", "yes", m))))
			p.begin()
		},
		"crashed while they went": func(p *salon, m relay.MessageID) {
			p.bot.stuck = errors.New("the network is away for good")
			p.accept(p.press("ann", "hall", "p", "yes", m))
			p.bot.stuck = nil
			p.begin()
		},
		"the message was not known": func(p *salon, m relay.MessageID) {
			p.bot.fails = errors.New("nobody knows whether it was sent")
			if _, err := p.ask("home", "hall", "choice", "lost", 0); err == nil {
				p.t.Error("no error")
			}
			p.accept(p.press("ann", "hall", "lost", "yes", m))
		},
		"past its time": func(p *salon, m relay.MessageID) {
			time.Sleep(outbound.PromptFor)
			if got := p.accept(p.press("ann", "hall", "p", "yes", m)); got != "home prompt_closed" {
				p.t.Errorf("%q", got)
			}
		},
		"answered, and pressed again": func(p *salon, m relay.MessageID) {
			p.accept(p.press("ann", "hall", "p", "yes", m))
			p.accept(p.press("ann", "hall", "p", "no", m))
		},
		"forgotten, and pressed by a stranger": func(p *salon, m relay.MessageID) {
			time.Sleep(outbound.PromptFor)
			_, err := p.db.Sweep(p.t.Context())
			p.must(err)
			p.accept(p.press("zoe", "hall", "p", "yes", m))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newSalon(t, store.Options{})
				m := p.mustAsk("home", "hall", "choice", "p")
				tc(p, m)
				if want := []string{"hall " + string(m)}; !slices.Equal(slices.Compact(p.bot.gone), want) {
					t.Errorf("gone %q, want %q", p.bot.gone, want)
				}
				p.must(p.db.Bind(t.Context(), nil, store.Binding{Platform: tell, User: "any", Instance: "kids"})) // what waited rides along
				if left, err := p.db.Prompts.Answered(t.Context()); len(left) != 0 || err != nil {
					t.Errorf("still owed: %+v, %v", left, err)
				}
			})
		})
	}
	t.Run("what is made up", func(t *testing.T) {
		p := newSalon(t, store.Options{})
		m := p.mustAsk("home", "hall", "choice", "p")
		for _, ev := range []relay.Event{
			p.press("zoe", "hall", "p", "never", m), p.press("zoe", "hall", "other", "yes", m), p.press("zoe", "hall", "p", "yes", "8"),
		} {
			p.accept(ev)
		}
		if slices.Contains(p.bot.gone, "hall "+string(m)) {
			t.Errorf("a stranger took the buttons of an open question away: %q", p.bot.gone)
		}
		if got := p.accept(p.press("ann", "hall", "p", "yes", m)); got != "home delivered" {
			t.Errorf("%q", got)
		}
	})
}

// TestAsking: stored before it is posted, and closed again if it certainly was not.
func TestAsking(t *testing.T) {
	refused := &relay.ActionError{Outcome: relay.NotSent, Public: "no"}
	for name, tc := range map[string]struct {
		fails error
		moves relay.ChatID
		press relay.ChatID
		want  string
	}{
		"posted":          {nil, "", "hall", "home delivered"},
		"certainly not":   {refused, "", "hall", " prompt_closed"},
		"nobody knows":    {errors.New("cut off"), "", "hall", "home delivered"},
		"the chat moved":  {nil, "-100", "-100", "home delivered"},
		"not in the past": {nil, "-100", "hall", " prompt_closed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newSalon(t, store.Options{})
			p.bot.fails, p.bot.moves = tc.fails, tc.moves
			_, err := p.ask("home", "hall", "choice", "p", 0)
			if (err == nil) != (tc.fails == nil) {
				t.Errorf("%v, want %v", err, tc.fails)
			}
			if len(p.bot.known) != 1 || p.bot.known[0].ID != "p" || p.bot.known[0].Message != "" {
				t.Errorf("when it was posted, %+v was stored", p.bot.known)
			}
			p.begin()
			if got := p.accept(p.press("ann", tc.press, "p", "yes", "q1")); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestPromptIDs: an id is one question's at a time in a chat, and another instance's is refused.
func TestPromptIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSalon(t, store.Options{})
		p.must(p.db.Bind(t.Context(), nil, store.Binding{Platform: tell, User: "ann", Instance: "kids", DMChat: "@ann"}))
		old := p.mustAsk("home", "@ann", "choice", "p")
		if _, err := p.ask("kids", "@ann", "choice", "p", 0); relay.Explain(err).Public != "invalid prompt: its prompt_id is in use" || p.bot.made != 1 {
			t.Errorf("%v after %d messages", err, p.bot.made)
		}
		p.bot.fails = &relay.ActionError{Outcome: relay.NotSent, Public: "no"}
		if _, err := p.ask("home", "@ann", "choice", "p", 0); err == nil {
			t.Error("no error")
		}
		p.begin()
		again := p.mustAsk("home", "@ann", "choice", "p")
		if got := p.accept(p.press("ann", "@ann", "p", "yes", old)); got != "home prompt_closed" {
			t.Errorf("the one asked again about: %q", got)
		}
		if got := p.accept(p.press("ann", "@ann", "p", "yes", again)); got != "home delivered" {
			t.Errorf("the new one: %q", got)
		}
		if _, err := p.ask("kids", "@ann", "choice", "p", 0); err != nil {
			t.Errorf("the id is free again: %v", err)
		}
		for _, bad := range []string{"", "a b", strings.Repeat("x", 33)} {
			if _, err := p.ask("home", "@ann", "choice", bad, 0); !strings.HasPrefix(relay.Explain(err).Public, "unsupported op prompt: ") {
				t.Errorf("id %q: %v", bad, err)
			}
		}
	})
}

// TestMaxOpen: one more closes the oldest, and those past their time count for nothing.
func TestMaxOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newSalon(t, store.Options{})
		for n := range 10 { // soon over
			_, err := p.ask("home", "hall", "choice", fmt.Sprint("short", n), 1)
			p.must(err)
		}
		time.Sleep(2 * time.Second)
		messages := make(map[int]relay.MessageID)
		for n := range 258 {
			time.Sleep(time.Millisecond)
			messages[n] = p.mustAsk("home", "hall", "choice", fmt.Sprint("p", n))
		}
		if n, err := p.db.Prompts.Count(t.Context(), "home"); n != 256 || err != nil {
			t.Errorf("%d open, %v; want 256", n, err)
		}
		for n, want := range map[int]string{0: " prompt_closed", 1: " prompt_closed", 2: "home delivered", 257: "home delivered"} {
			if got := p.accept(p.press("ann", "hall", fmt.Sprint("p", n), "yes", messages[n])); got != want {
				t.Errorf("number %d: %q, want %q", n, got, want)
			}
		}
	})
}

// TestTypedApprovals: in words, too, only people who are bound approve.
func TestTypedApprovals(t *testing.T) {
	p := newSalon(t, store.Options{})
	for text, want := range map[string]string{
		"/approve": "home not_principal", "/deny@bot now": "home not_principal", "/approve@bot session": "home not_principal",
		"/Approve": "home not_principal", "/approved": "home delivered", "hello": "home delivered",
	} {
		ev := p.press("zoe", "hall", "", "", "")
		ev.Prompt, ev.Traits.Press, ev.Text = nil, false, text
		if got := p.accept(ev); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		ev = p.press("ann", "hall", "", "", "")
		ev.Prompt, ev.Traits.Press, ev.Text = nil, false, text
		if got := p.accept(ev); got != "home delivered" {
			t.Errorf("ann's %q: %q", text, got)
		}
	}
}
