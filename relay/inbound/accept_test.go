package inbound

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// TestACapabilityIsNobodysWhenItsInstanceWentMeanwhile: the store knows better than the judgement whom an event was stored for.
func TestACapabilityIsNobodysWhenItsInstanceWentMeanwhile(t *testing.T) {
	in, h := newRoom()
	j := judgement{
		event:      relay.Event{ID: "i1", Source: relay.Source{ChatID: "@ann", ChatType: relay.ChatDM, UserID: "ann"}},
		verdicts:   []verdict{{Instance: "home", Tenant: relay.DefaultTenant, Reason: gate.Delivered}},
		to:         []store.Recipient{{Instance: "home"}},
		capability: &platforms.Capability{Event: "i1", Placeholder: true},
	}
	if c := in.bind(&j); c == nil || c.Instance != "home" {
		t.Fatalf("bound to %+v", c)
	}
	in.announce(j, make([]relay.BufferID, 1))
	if len(h.discarded) != 1 || h.discarded[0].Event != "i1" {
		t.Errorf("discarded: %+v, want what came", h.discarded)
	}
}
