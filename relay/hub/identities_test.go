package hub

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

func TestWhatASessionDoesNotFrontWaitsForTheHelloThatDoes(t *testing.T) {
	for name, first := range map[string]wire.Hello{
		"another platform": {Platform: "telegram", BotID: "1"},
		"another bot":      {Platform: local.LoopbackID, BotID: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.enroll("home", "ann", "bob")
			r.say(local.Message{User: "ann", Text: "one"})
			r.say(local.Message{User: "bob", Text: "two"})
			g := r.dialOnly("home")
			g.send(first)
			if _, ok := g.read().(wire.Descriptor); !ok {
				t.Fatal("no descriptor")
			}
			wait.Until(t, "the look at what waits", func() bool { return len(r.hub.Unfronted("home")) > 0 })
			if diff := cmp.Diff([]relay.Bot{r.bot}, r.hub.Unfronted("home")); diff != "" {
				t.Errorf("unfronted (-want +got):\n%s", diff)
			}
			if elsewhere := (relay.Bot{Platform: "elsewhere", ID: "1"}); r.hub.Fronts("home", r.bot) || r.hub.Fronts("home", r.bot, elsewhere) != r.hub.Fronts("home", elsewhere) || !r.hub.Fronts("attic", r.bot) {
				t.Error("what is fronted is not what hellos said")
			}
			g.send(wire.Hello{Platform: r.bot.Platform})
			if d, ok := g.read().(wire.Descriptor); !ok || d.Platform != local.LoopbackID {
				t.Fatal("what waited came before the descriptor of its platform")
			}
			for _, want := range []string{"one", "two"} {
				in := g.inbound()
				if in.Event.Text != want {
					t.Errorf("inbound = %q, want %q", in.Event.Text, want)
				}
				g.send(wire.InboundAck{Buffer: in.Buffer})
			}
			if !r.hub.Fronts("home", r.bot) {
				t.Error("the bot is not fronted")
			}
			if got := r.hub.Unfronted("home"); got != nil {
				t.Errorf("unfronted = %v, want none", got)
			}
		})
	}
}
