package hub

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/loopback"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

func TestACapabilityWaitsForItsVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newMemoryKeeper()
		take := func(b relay.Bot, id relay.EventID) (Held, bool) {
			h, ok := k.OfEvent("", b, id)
			k.Forget(Held{Bot: b, Capability: platforms.Capability{Event: id}})
			return h, ok
		}
		a, b := relay.Bot{Platform: "discord", ID: "1"}, relay.Bot{Platform: "discord", ID: "2"}
		c := func(id string) platforms.Capability {
			return platforms.Capability{Event: relay.EventID(id), ID: id, ExpiresAt: time.Now().Add(15 * time.Minute)}
		}
		if _, ok := take(a, "7"); ok {
			t.Error("something was held before anything was")
		}
		k.Keep(Held{Bot: a, Capability: c("7")})
		if _, ok := take(b, "7"); ok {
			t.Error("another bot's was handed out")
		}
		if got, ok := take(a, "7"); !ok || got.ID != "7" {
			t.Errorf("take = %+v, %v", got, ok)
		}
		if _, ok := take(a, "7"); ok {
			t.Error("it was handed out twice")
		}
		for n := range 100 {
			k.Keep(Held{Bot: a, Capability: c(fmt.Sprint(n))})
		}
		time.Sleep(15 * time.Minute)
		if _, ok := take(a, "7"); ok {
			t.Error("an expired one was handed out")
		}
		k.Keep(Held{Bot: b, Capability: c("8")})
		if n := len(k.by[""]); n != 1 {
			t.Errorf("%d are remembered, want 1", n)
		}
	})
}

// TestACommandThatWaitsForTheNetwork: a guest's command in a chat of somebody else's keeps its placeholder
// until the verdict: then it is the instance's to answer, or taken away.
func TestACommandThatWaitsForTheNetwork(t *testing.T) {
	for name, tc := range map[string]struct {
		sees bool
		want []string
	}{
		"its owner sees the chat": {true, []string{"respond tok1 first=true: yes"}},
		"he does not":             {false, []string{"discard tok1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newResponderRig(t)
			r.enroll("home", "ann")
			r.claim("home", "garden")
			r.update("home", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
			if tc.sees {
				r.net.Join("garden", "ann")
			}
			ev := relay.Event{
				ID: "i1", Bot: r.bot, MessageID: "i1", Type: relay.TypeCommand, Text: "/ask", At: time.Now(), Traits: relay.Traits{Addressed: true},
				Source: relay.Source{Platform: loopback.ID, ChatID: "garden", ChatType: relay.ChatGroup, UserID: "eve"},
			}
			c := platforms.Capability{
				Event: "i1", Kind: slashKind, ID: "i1", Token: relay.NewSecret([]byte("tok1")), Placeholder: true, ExpiresAt: time.Now().Add(15 * time.Minute),
			}
			if err := (&inbox{hub: r.hub, bot: r.bot}).Accept(t.Context(), platforms.Batch{Events: []relay.Event{ev}, Capabilities: []platforms.Capability{c}}); err != nil {
				t.Fatal(err)
			}
			if tc.sees {
				g := r.dial("home")
				if in := g.inbound(); in.Event.ID != "" && in.Event.MessageID != "i1" {
					t.Fatalf("inbound = %+v", in)
				}
				if res := g.do(relay.Request{Action: relay.Send{Chat: "garden", Content: "yes"}}); res.Err != nil {
					t.Fatal(res.Err)
				}
			}
			eventually(t, "what becomes of the placeholder", func() bool { return slices.Equal(p.log(), tc.want) })
		})
	}
}
