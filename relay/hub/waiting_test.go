package hub

import (
	"slices"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// TestACommandThatWaitsForTheNetwork: a guest's command in a chat of somebody else's keeps its placeholder
// until the verdict: then it is the instance's to answer, or taken away.
func TestACommandThatWaitsForTheNetwork(t *testing.T) {
	for name, tc := range map[string]struct {
		sees bool
		want []string
	}{
		"its owner sees the chat": {true, []string{"respond tok1 first=true: yes"}},
		"they do not":             {false, []string{"discard tok1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newResponderRig(t)
			r.enroll("home", "ann")
			r.claim("home", "garden")
			r.update("home", func(i *store.Instance) { i.Principal.Policy = relay.AnyOne })
			if tc.sees {
				r.net.Join("garden", "ann")
			}
			must.Succeed(t, r.hub.in.Inbox(r.bot).Accept(t.Context(), slash(r.bot, "eve", "garden", "i1", "/ask", "tok1")))
			if tc.sees {
				g := r.dial("home")
				if in := g.inbound(); in.Event.ID != "" && in.Event.MessageID != "i1" {
					t.Fatalf("inbound = %+v", in)
				}
				if res := g.do(relay.Request{Action: relay.Send{Chat: "garden", Content: "yes"}}); res.Err != nil {
					t.Fatal(res.Err)
				}
			}
			wait.Until(t, "what becomes of the placeholder", func() bool { return slices.Equal(p.log(), tc.want) })
		})
	}
}
