package hub

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/outbound"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// modelled is what the model knows of a prompt.
type modelled struct {
	chat    relay.ChatID
	message relay.MessageID
	known   bool // the connector has been told which message it is
	until   time.Time
	answer  relay.EventID // of the press that won; empty: none
	acked   bool
}

// TestPressesAgainstAModel lives through random histories of questions, presses by several people (one at a time and
// together, with a network that does not say who sees what), acknowledgements, lost ones, time, and restarts at every
// step, also right after the commit of a press. Of each prompt at most one press is delivered, the first that counts;
// what was answered loses its buttons at once, what is open never does; and what came to nothing left nothing on the disk.
func TestPressesAgainstAModel(t *testing.T) {
	t.Parallel()
	for part := range long.Pick(1, 2) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				var failed any
				synctest.Test(t, func(t *testing.T) {
					defer func() { failed = recover() }()
					pressHistory(t, rt)
				})
				switch failed := failed.(type) {
				case nil:
				case failure:
					rt.Fatal(string(failed))
				default:
					panic(failed)
				}
			})
		})
	}
}

func pressHistory(t *testing.T, rt *rapid.T) {
	p, all, ids := newSalon(t, store.Options{}), make(map[string]*modelled), []string{}
	fail := func(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }
	won := make(map[relay.EventID]string)
	note := func(evs []relay.Event) { // what reached the gateway
		for _, ev := range evs {
			m := all[ev.Prompt.PromptID]
			if m == nil || m.acked || won[relay.EventID("e"+string(ev.MessageID[1:]))] != ev.Prompt.PromptID {
				fail("delivered %+v of %+v, which did not win", ev.Prompt, m)
			}
			m.acked = true
		}
	}
	press := func() relay.Event {
		id := rapid.SampledFrom(ids).Draw(rt, "prompt")
		m := all[id]
		return p.press(rapid.SampledFrom([]relay.UserID{"ann", "eve", "zoe"}).Draw(rt, "who"), m.chat, id,
			rapid.SampledFrom([]string{"yes", "yes", "no", "never"}).Draw(rt, "option"),
			rapid.SampledFrom([]relay.MessageID{m.message, m.message, m.message, "", "other"}).Draw(rt, "message"))
	}
	for range 25 {
		switch what := rapid.SampledFrom([]string{"ask", "press", "press", "press", "two", "press and die", "ack", "ack and die", "restart", "time", "network"}).Draw(rt, "step"); {
		case what == "ask" || len(ids) == 0:
			id, chat := fmt.Sprint("p", len(ids)), rapid.SampledFrom([]relay.ChatID{"hall", "@ann"}).Draw(rt, "chat")
			m := &modelled{chat: chat, until: time.Now().Add(outbound.PromptFor), known: true}
			switch rapid.SampledFrom([]string{"well", "well", "well", "lost", "refused"}).Draw(rt, "posted") {
			case "lost":
				p.bot.fails = errors.New("cut off")
			case "refused":
				p.bot.fails = &relay.ActionError{Outcome: relay.NotSent, Public: "no"}
				m.until = time.Now()
			}
			res, _ := p.ask("home", chat, "choice", id, 0)
			m.message = res.MessageID
			if m.message == "" {
				m.known = false
				p.bot.made++
				m.message = relay.MessageID(fmt.Sprint("q", p.bot.made))
			}
			all[id], ids = m, append(ids, id)
		case what == "press" || what == "two" || what == "press and die":
			evs := []relay.Event{press()}
			if what == "two" {
				evs = append(evs, press())
			}
			before := p.db.Stats().Commits
			died := []string{} // reasons that were known when the process died
			if what == "press and die" {
				p.must(p.hub.in.Inbox(p.bot.bot).Accept(p.t.Context(), p.batch(evs...)))
				died = p.reasons(evs[0].ID)
				p.begin()
			} else {
				p.accept(evs...)
			}
			wins := 0
			for _, ev := range evs {
				m, id := all[ev.Prompt.PromptID], ev.Prompt.PromptID
				reasons := append(died, p.reasons(ev.ID)...)
				got := reasons[len(reasons)-1]
				owner := ev.Source.UserID == "ann"
				on := ev.Prompt.PromptMessageID == "" || ev.Prompt.PromptMessageID == m.message
				open := m.answer == "" && time.Now().Before(m.until)
				// Where nobody knows which message has the buttons, any may.
				r, _, err := p.db.Prompts.At(t.Context(), ev.Chat(), id)
				p.must(err)
				unknown := r.Message == "" || r.Answer != nil && r.Answer.Event == ev.ID && r.Message == ev.Prompt.PromptMessageID
				want := "delivered"
				switch {
				case !open || ev.Prompt.OptionID == "never" || !on && !unknown:
					want = "prompt_closed"
				case !owner && (m.chat != "hall" || p.mute):
					want = "prompt_foreign"
				}
				// Ann's own press shows for a while that she sees the hall. And of two at once the second is judged
				// before the first is stored.
				unsure := !owner && (p.mute && m.chat == "hall" && want == "prompt_foreign" && got == "delivered" ||
					what == "two" && want == "prompt_closed" && got == "prompt_foreign")
				if got != want && !unsure {
					fail("%s pressed %+v: %v, want %s; %+v", ev.Source.UserID, ev.Prompt, reasons, want, m)
				}
				if got == "delivered" {
					m.answer, won[ev.ID] = ev.ID, id
					if ev.Prompt.PromptMessageID != "" {
						m.message, m.known = ev.Prompt.PromptMessageID, true
					}
				}
				if got == "delivered" || slices.Contains(reasons, "undecided") {
					wins++
				}
			}
			if n := p.db.Stats().Commits; wins == 0 && n != before {
				fail("%d commits for presses that came to nothing", n-before)
			}
		case what == "ack":
			note(p.ack("home"))
		case what == "ack and die":
			note(p.ack("home", true))
			p.begin()
		case what == "restart":
			p.begin()
		case what == "time":
			time.Sleep(20 * time.Minute)
			p.settle()
		case what == "network":
			p.mute = !p.mute
			time.Sleep(visibility.Unknown + visibility.Believed)
		}
		for id, m := range all {
			where := string(m.chat) + " " + string(m.message)
			open := m.answer == "" && time.Now().Before(m.until)
			if known := m.message != "other"; known && open && slices.Contains(p.bot.gone, where) {
				fail("%s is open, and its buttons are gone", id)
			}
			if m.answer != "" && m.known && !slices.Contains(p.bot.gone, where) {
				fail("%s was answered, and its buttons are there; gone %q", id, p.bot.gone)
			}
		}
	}
	p.begin()
	note(p.ack("home"))
	for id, m := range all {
		if (m.answer != "") != m.acked {
			fail("%s: %+v: the press that won did not arrive", id, m)
		}
	}
}
