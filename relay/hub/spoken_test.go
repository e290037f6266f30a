package hub

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/inbound"
	"github.com/hermes-connector/hermes-connector/store"
)

// TestWhoIsSpokenToByName gets the message alone and without the name, if they may have it; else the name is words.
func TestWhoIsSpokenToByName(t *testing.T) {
	t.Parallel()
	delivered, left := gate.Delivered, gate.NotNamed
	for name, tc := range map[string]struct {
		say  local.Message
		want map[relay.InstanceID]gate.Reason
		text string
	}{
		"a direct message to the default": {local.Message{User: "ann", Text: "hello"}, map[relay.InstanceID]gate.Reason{"home": delivered}, "hello"},
		"to another of theirs":            {local.Message{User: "ann", Text: "@kitchen light on"}, map[relay.InstanceID]gate.Reason{"pi-7": delivered}, "light on"},
		"by its id, as a command":         {local.Message{User: "ann", Text: "@PI-7: /new"}, map[relay.InstanceID]gate.Reason{"pi-7": delivered}, "/new"},
		"to one that is not theirs":       {local.Message{User: "bob", Text: "@kitchen light on"}, map[relay.InstanceID]gate.Reason{"home": delivered}, "@kitchen light on"},
		"in a group, to both":             {local.Message{User: "bob", Chat: "garden", Text: "light on"}, map[relay.InstanceID]gate.Reason{"home": delivered, "pi-7": delivered}, "light on"},
		"in a group, to the holder":       {local.Message{User: "bob", Chat: "garden", Text: "@kitchen light on"}, map[relay.InstanceID]gate.Reason{"home": left, "pi-7": delivered}, "light on"},
		"in a group, to their own":        {local.Message{User: "bob", Chat: "garden", Text: "@home light on"}, map[relay.InstanceID]gate.Reason{"home": delivered, "pi-7": left}, "light on"},
		"in a group, an approval": {
			local.Message{User: "bob", Chat: "garden", Text: "@kitchen /approve all"},
			map[relay.InstanceID]gate.Reason{"home": delivered, "pi-7": gate.NotPrincipal}, "@kitchen /approve all",
		},
		"in another group": {local.Message{User: "ann", Chat: "yard", Text: "@kitchen hi"}, map[relay.InstanceID]gate.Reason{"home": delivered}, "@kitchen hi"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.enroll("home", "ann", "bob")
			r.enroll("pi-7", "ann")
			r.claim("pi-7", "garden")
			r.update("pi-7", func(i *store.Instance) {
				i.Label, i.Principal.Policy = "kitchen", relay.AnyOne
				i.Relevance = map[relay.PlatformID]store.Relevance{r.bot.Platform: {}}
			})
			r.say(local.Message{User: "ann", Chat: "garden", Text: "I see this chat"})
			r.say(tc.say)
			if got := r.reasons(); !maps.Equal(got, tc.want) {
				t.Errorf("verdicts %v, want %v", got, tc.want)
			}
			for i, why := range tc.want {
				want := []string{tc.text}
				if why != delivered {
					want = nil
				}
				got := slices.DeleteFunc(r.texts(string(i)), func(s string) bool { return s == "I see this chat" })
				if !slices.Equal(got, want) {
					t.Errorf("%s got %q, want %q", i, got, want)
				}
			}
		})
	}
}

// TestPeopleChooseInTheChat with the buttons of the connector's own question, which go when one is pressed. No gateway may
// ask under its id.
func TestPeopleChooseInTheChat(t *testing.T) {
	r := newPoliteRig(t, inbound.Replies{})
	r.enroll("home", "ann")
	r.enroll("kids", "ann")
	r.hears(local.Message{User: "ann", Text: "/agent"})
	acts := r.net.Acts()
	asked := acts[len(acts)-1]
	if asked.Op != relay.OpPrompt || asked.Prompt != relay.OwnPrompt || len(r.texts("home")) != 0 {
		t.Fatalf("the bot did %+v, and the gateway got %q", asked, r.texts("home"))
	}
	_, second, _ := strings.Cut(asked.Options, " ")
	answers := r.hears(local.Message{User: "ann", Press: &local.Press{Message: asked.Message, Prompt: asked.Prompt, Option: second}})
	if !slices.Contains(answers, "Done: what you write to me here goes to `kids` now.") {
		t.Errorf("a press is answered with %q", answers)
	}
	if !slices.ContainsFunc(r.net.Acts(), func(a local.Act) bool { return a.Op == local.OpUnprompt && a.Message == asked.Message }) {
		t.Error("the buttons stay")
	}
	r.say(local.Message{User: "ann", Text: "hello"})
	if got := r.texts("kids"); !slices.Equal(got, []string{"hello"}) {
		t.Errorf("kids got %q", got)
	}
	g := r.dial("kids")
	g.inbound() // hello
	out := g.do(relay.Request{ID: "r1", Action: relay.Prompt{
		Chat: "@ann", Content: "Yes?", PromptID: relay.OwnPrompt, Options: []relay.PromptOption{{ID: "yes", Label: "Yes"}},
	}})
	if out.Err == nil || out.Err.Public != "invalid prompt: its prompt_id is in use" {
		t.Errorf("a gateway asks under the connector's id: %+v", out)
	}
}
