package absent

import (
	"strconv"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestPastForgetsTheOldest(t *testing.T) {
	var p Messages
	for i := range Most + 2 {
		p.Note(relay.MessageID(strconv.Itoa(i)))
		p.Note(relay.MessageID(strconv.Itoa(i)))
	}
	for id, want := range map[relay.MessageID]bool{"0": false, "1": false, "2": true, relay.MessageID(strconv.Itoa(Most + 1)): true} {
		if p.Has(id) != want {
			t.Errorf("has(%s) = %v", id, !want)
		}
	}
	if len(p.ids) != Most || len(p.ring) != Most {
		t.Errorf("%d ids in a ring of %d", len(p.ids), len(p.ring))
	}
}
