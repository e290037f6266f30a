package link

import (
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// pressed is a press of user's on the option of a question.
func pressed(user relay.UserID, question, option string) relay.Event {
	ev := event(user, "/"+option)
	ev.Traits.Press, ev.Prompt = true, &relay.PromptResponse{PromptID: question, OptionID: option}
	return ev
}

// link links user to the instance, whose people know it by that name.
func (b *bench) link(t *testing.T, user relay.UserID, i relay.InstanceID, label string) {
	t.Helper()
	if err := b.db.Bind(t.Context(), nil, store.Binding{Platform: "telegram", User: user, Instance: i, BoundAt: b.now}); err != nil {
		t.Fatal(err)
	}
	if err := b.db.Labels.Give(t.Context(), nil, i, label); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(1)
}

// TestCommandsOfPeople are ours in direct messages only: in a group a gateway may have commands of those names.
func TestCommandsOfPeople(t *testing.T) {
	for _, text := range []string{"/whoami", "/unlink home", "/Agent", "/whoami@our_bot"} {
		if c, ok := Command(event("ann", text)); !ok || !strings.Contains(strings.ToLower(text), string(c.Verb)) {
			t.Errorf("%q in a direct message: %+v, %t; want a control message", text, c, ok)
		}
		if _, ok := Command(inGroup(event("ann", text))); ok {
			t.Errorf("%q in a group is a control message", text)
		}
	}
	if _, ok := Command(pressed("ann", relay.OwnPrompt, "x")); !ok {
		t.Error("a press on our question is no control message")
	}
	for what, ev := range map[string]relay.Event{
		"a press on a gateway's question": pressed("ann", "q1", "agent"),
		"a press in a group":              inGroup(pressed("ann", relay.OwnPrompt, "x")),
	} {
		if _, ok := Command(ev); ok {
			t.Errorf("%s is a control message", what)
		}
	}
}

func TestWhoAmI(t *testing.T) {
	b := newBench(t)
	ev := event("ann", "/whoami")
	if got := b.say(t, ev); !strings.Contains(got, "linked to no gateway") || !strings.Contains(got, "`telegram` person `ann`") {
		t.Errorf("a stranger hears %q", got)
	}
	b.link(t, "ann", "home", "kitchen")
	ev.Source.UserName = "Ann` [x](y)\u202e"
	if got, want := b.say(t, ev), "You are `Ann' [x](y)` here, `telegram` person `ann`. What you write to me here goes to `kitchen`."; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	b.link(t, "ann", "kids", "")
	if got := b.say(t, ev); !strings.Contains(got, "linked to `kids` too") || !strings.Contains(got, "begin a message with `@kids`.") {
		t.Errorf("got %q, want the other one too", got)
	}
}

func TestUnlink(t *testing.T) {
	b := newBench(t)
	b.link(t, "ann", "home", "kitchen")
	b.link(t, "ann", "kids", "")
	b.link(t, "bob", "home", "kitchen")
	if got := b.say(t, event("ann", "/unlink")); !strings.Contains(got, "`/unlink kitchen` or `/unlink kids`") || len(b.bindings(t, "ann")) != 2 {
		t.Errorf("without a name: %q, and %d links; want to be asked which", got, len(b.bindings(t, "ann")))
	}
	if got := b.say(t, event("ann", "/unlink attic")); !strings.Contains(got, "`/unlink kids`") || len(b.bindings(t, "ann")) != 2 {
		t.Errorf("with another's name: %q", got)
	}
	if got := b.say(t, event("ann", "/unlink Kitchen")); !strings.Contains(got, "not linked to `kitchen` any more") || !strings.Contains(got, "goes to `kids`") {
		t.Errorf("got %q", got)
	}
	b.say(t, event("ann", "/unlink kids"))
	if len(b.bindings(t, "ann")) != 0 || len(b.bindings(t, "bob")) != 1 {
		t.Errorf("ann has %d links, bob %d; want 0 and 1", len(b.bindings(t, "ann")), len(b.bindings(t, "bob")))
	}
	if got := b.say(t, event("ann", "/unlink kids")); !strings.Contains(got, "linked to no gateway") { // handed in again
		t.Errorf("again: %q", got)
	}
}

func TestChoosingAnAgent(t *testing.T) {
	b := newBench(t)
	b.link(t, "ann", "home", "kitchen")
	if got := b.ask(t, event("ann", "/agent")); len(got.Options) != 0 || !strings.Contains(got.Text, "no other") {
		t.Errorf("with one link: %+v", got)
	}
	b.link(t, "ann", "kids", "")
	asked := b.ask(t, event("ann", "/agent"))
	if len(asked.Options) != 2 || asked.Options[0].Label != "kitchen" || asked.Options[1].Label != "kids" || !strings.Contains(asked.Text, "`/agent kids`") {
		t.Fatalf("got %+v, want a button for each", asked)
	}
	direct := func() relay.InstanceID {
		i, err := DirectTo(t.Context(), b.db, store.Person{Platform: "telegram", User: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	b.say(t, pressed("bob", relay.OwnPrompt, asked.Options[1].ID)) // whoever else presses changes nothing of ann's
	if direct() != "home" {
		t.Errorf("bob's press chose %s for ann", direct())
	}
	if got := b.say(t, pressed("ann", relay.OwnPrompt, asked.Options[1].ID)); !strings.Contains(got, "goes to `kids` now") || direct() != "kids" {
		t.Errorf("a press: %q, and direct messages go to %s", got, direct())
	}
	if got := b.say(t, event("ann", "/agent KITCHEN")); !strings.Contains(got, "goes to `kitchen` now") || direct() != "home" {
		t.Errorf("typed: %q, and direct messages go to %s", got, direct())
	}
	if got := b.ask(t, pressed("ann", relay.OwnPrompt, "0123456789abcdef")); len(got.Options) != 2 {
		t.Errorf("an option that is none: %+v, want to be asked again", got)
	}
}
