package link

import (
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
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
		if c, ok := Command(event("ann", text)); !ok || !strings.Contains(strings.ToLower(text), string(c.verb)) {
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

// TestLinkedForCommands: a person is told which commands go where, and who is linked for these only does not answer
// what they write.
func TestLinkedForCommands(t *testing.T) {
	b := newBench(t)
	if err := b.db.Labels.Give(t.Context(), nil, "kids", "tools"); err != nil {
		t.Fatal(err)
	}
	code := func(i relay.InstanceID, commands ...string) string {
		t.Helper()
		code, _, err := b.Mint(t.Context(), audit.Actor{}, i, "", commands...)
		if err != nil {
			t.Fatal(err)
		}
		return "/link " + code
	}
	says := func(ev relay.Event, want string) {
		t.Helper()
		if got := b.ask(t, ev); got.Text != want || len(got.Options) > 0 {
			t.Errorf("%q is answered\n%q, %v; want\n%q", ev.Text, got.Text, got.Options, want)
		}
	}
	first := code("kids", "/add", "/backup")
	says(event("ann", first), "Done: you are linked to `tools` for commands only: `/add`, `/backup` go there.")
	says(event("ann", first), "Done: you are linked to `tools` for commands only: `/add`, `/backup` go there.") // handed in again
	const only = "You are linked for commands only. `/add`, `/backup` go to `tools`."
	says(event("ann", "/whoami"), "You are `telegram` person `ann` here. "+only)
	says(event("ann", "/agent"), only)
	says(event("ann", "/agent tools"), only)
	says(event("ann", code("home")), "Done: you are linked to `home`. Just write to me here.")
	const whole = "What you write to me here goes to `home`. "
	says(event("ann", "/whoami"), "You are `telegram` person `ann` here. "+whole+"`/add`, `/backup` go to `tools`.")
	says(event("ann", "/agent tools"), whole+"`/add`, `/backup` go to `tools`.")
	again := code("home", "/new", "/add")
	says(event("ann", again), "That did not link you: your `/add` goes to `tools` already. Send `/unlink tools` first, and then the code again.")
	says(event("ann", "/whoami"), "You are `telegram` person `ann` here. "+whole+"`/add`, `/backup` go to `tools`.")
	says(event("ann", "/unlink tools"), "Done: you are not linked to `tools` any more. What you write to me here goes to `home`.")
	says(event("ann", again), "Done: you are linked to `home` for commands only: `/new`, `/add` go there.")
	for range 5 {
		b.say(t, event("bob", first)) // somebody else's
	}
	if got := b.say(t, event("bob", first)); got != "" {
		t.Errorf("the sixth try is answered %q", got)
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
