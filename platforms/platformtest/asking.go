package platformtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Presser is a Harness whose people press buttons, for platforms.Prompter.
type Presser interface {
	// Buttons returns the ids of the options that a message's buttons stand for now, in order.
	Buttons(chat relay.ChatID, message relay.MessageID) []string
	// Press makes a person press a button on a message of a place.
	Press(ctx context.Context, who Person, where Place, message relay.MessageID, prompt, option string) error
}

// checkButtons checks rule 15 of the package comment: buttons.
func checkButtons(b *bench) {
	p, able := b.p.(platforms.Prompter)
	h, tells := b.h.(Presser)
	if !able || !tells {
		return
	}
	where := shared(b.h)
	ev := b.hear(Ann, where, "ask me")
	chat := ev.Source.ChatID
	ask := relay.Prompt{
		Chat: chat, Content: "go on?", Kind: "choice", PromptID: "k3f9a1.0badcafe", Meta: reply(ev, "").Meta,
		Options: []relay.PromptOption{{ID: "yes", Label: "Yes, please do go on from here", Style: "success"}, {ID: "no", Label: "No", Style: "danger"}},
	}
	b.refusesPrompts(p, ask)
	ask.Content = strings.Repeat("x", platforms.Describe(b.p).MaxMessageLength+1)
	long := b.asks(p, h, ask)
	if len(long.MessageIDs) < 2 || long.MessageIDs[len(long.MessageIDs)-1] != long.MessageID {
		fail("a question that is too long for one message is %v, with its buttons on %q; want them on the last part", long.MessageIDs, long.MessageID)
	}
	ask.Content = "go on?"
	res := b.asks(p, h, ask)

	first, second := b.presses(h, where, ev.Source, res.MessageID, ask.PromptID), b.presses(h, where, ev.Source, res.MessageID, ask.PromptID)
	if first.ID == second.ID || first.MessageID == second.MessageID {
		fail("two presses have the event ids %q and %q, the message ids %q and %q; want each its own", first.ID, second.ID, first.MessageID, second.MessageID)
	}
	for range 2 { // the second time there are none
		must("take the buttons off", p.Unprompt(b.ctx, chat, res.MessageID))
		if left := h.Buttons(chat, res.MessageID); len(left) > 0 && !lacks(b.h).Standing {
			fail("buttons were taken off, and %q are left", left)
		}
	}
}

// refusesPrompts checks that the bot refuses prompts whose options cannot become buttons.
func (b *bench) refusesPrompts(p platforms.Prompter, ask relay.Prompt) {
	many, bad, double := ask, ask, ask
	many.Options = nil
	for i := range 101 {
		many.Options = append(many.Options, relay.PromptOption{ID: fmt.Sprint("o", i), Label: "one of many"})
	}
	bad.PromptID = "a prompt"
	double.Options = []relay.PromptOption{ask.Options[0], ask.Options[0]}
	for what, a := range map[string]relay.Prompt{"101 options": many, "an id with a space": bad, "one option twice": double} {
		before := len(b.h.Received())
		_, err := p.Prompt(b.ctx, a)
		ae := relay.Explain(err)
		if ae == nil || ae.Outcome != relay.NotSent || !strings.HasPrefix(ae.Public, "unsupported op prompt: ") || len(b.h.Received()) > before {
			fail("a question with %s: %v; want it refused as unsupported, and nothing posted", what, err)
		}
	}
}

// asks posts a question and checks that its message has a button for each option.
func (b *bench) asks(p platforms.Prompter, h Presser, a relay.Prompt) relay.Result {
	res, err := p.Prompt(b.ctx, a)
	must("question", err)
	var want []string
	for _, o := range a.Options {
		want = append(want, o.ID)
	}
	if got := h.Buttons(a.Chat, res.MessageID); !slices.Equal(got, want) {
		fail("message %q of a question has buttons for %q, want %q", res.MessageID, got, want)
	}
	return res
}

// presses makes Ann press the first button, and checks the event.
func (b *bench) presses(h Presser, where Place, src relay.Source, message relay.MessageID, prompt string) (press relay.Event) {
	before := len(b.in.events())
	must("harness: press", h.Press(b.ctx, Ann, where, message, prompt, "yes"))
	press = b.eventThat(before, func(ev relay.Event) bool { return ev.Prompt != nil }, "the event of a press")
	a := *press.Prompt
	switch {
	case a.PromptID != prompt || a.OptionID != "yes" || a.PromptMessageID != message:
		fail("a press is told as %+v; want prompt %q, option yes, message %q", a, prompt, message)
	case press.Text != "/yes" || press.Type != relay.TypeCommand || !press.Traits.Press:
		fail("a press is %s %q (press: %t); want the command /yes", press.Type, press.Text, press.Traits.Press)
	case press.Source.UserID != src.UserID || press.Source.ChatID != src.ChatID || press.Source.ThreadID != src.ThreadID:
		fail("a press comes from %+v; what its person says, from %+v", press.Source, src)
	}
	return press
}

// checkContext checks rule 16 of the package comment: context. It asks for the lines before the event "and now?". The
// answer must have neither what came before the bot's message, nor what was said in a thread, nor what came later.
func checkContext(b *bench) {
	p, able := b.p.(platforms.Historian)
	if !able {
		return
	}
	where := shared(b.h)
	first := b.hear(Ann, where, "long ago")
	b.send(reply(first, "the bot spoke"))
	b.hear(Ann, where, "line one")
	if err := b.h.Say(b.ctx, Ann, Thread, "in the thread"); err == nil {
		b.event("in the thread")
	} else if !errors.Is(err, errors.ErrUnsupported) {
		must("harness: say", err)
	}
	b.hear(Ann, where, "line two")
	ev := b.hear(Ann, where, "and now?")
	b.hear(Ann, where, "said later")
	for n, want := range map[int][]string{10: {"line one", "line two"}, 1: {"line two"}} {
		lines, whole, err := p.History(b.ctx, ev, n)
		must("history", err)
		var got []string
		for _, l := range lines {
			got = append(got, l.Text)
			if l.UserID != ev.Source.UserID && l.UserName == "" {
				fail("a line of context has no author: %+v", l)
			}
		}
		if !slices.Equal(got, want) {
			fail("the newest %d lines of context are %q, want %q", n, got, want)
		}
		if !whole {
			fail("the context reaches back to the bot's own message, and is not called whole")
		}
	}
}

// checkDrafts checks rule 17 of the package comment: drafts.
func checkDrafts(b *bench) {
	p, able := b.p.(platforms.Drafter)
	if !able || !p.Drafts() {
		return
	}
	ev := b.hear(Ann, Direct, "hello")
	draft := relay.Draft{Chat: ev.Source.ChatID, DraftID: 7, Content: "half a sent", Meta: reply(ev, "").Meta}
	_, err := p.Draft(b.ctx, draft)
	must("draft", err)
	if got := sent(b.h); len(got) > 0 {
		fail("a draft became the messages %q", got)
	}
	draft.Final = true
	before := len(b.h.Received())
	_, err = p.Draft(b.ctx, draft)
	if ae := relay.Explain(err); ae == nil || ae.Outcome != relay.NotSent || len(b.h.Received()) > before {
		fail("a final draft: %v; want it refused, for it is no message", err)
	}
}
