package link

import (
	"strconv"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestTriesAreBounded(t *testing.T) {
	var tr tries
	who := func(i int) trier { return trier{platform: "telegram", user: relay.UserID(strconv.Itoa(i))} }
	for i := range maxTriers {
		tr.take(who(i), start)
	}
	late := start.Add(tryWindow / 2)
	for range maxTries {
		tr.take(who(0), late)
	}
	if tr.take(who(0), late) {
		t.Error("a sixth try was granted")
	}
	if got := len(tr.at); got != maxTriers {
		t.Fatalf("%d people remembered, want %d", got, maxTriers)
	}

	// The others' tries are over, so there is room again, and nobody with a recent one is forgotten.
	later := start.Add(tryWindow)
	if !tr.take(who(maxTriers), later) {
		t.Error("a newcomer's first try was refused")
	}
	if got := len(tr.at); got != 2 {
		t.Errorf("%d people remembered, want 2", got)
	}
	tr.take(who(0), later)
	if tr.take(who(0), later) {
		t.Error("making room forgot a recent try")
	}

	for i := range 3 * maxTriers {
		if !tr.take(who(-1-i), later) {
			t.Fatalf("person %d: first try refused", i)
		}
		if got := len(tr.at); got > maxTriers {
			t.Fatalf("%d people remembered, want at most %d", got, maxTriers)
		}
	}
}

func TestRefund(t *testing.T) {
	var tr tries
	ann := trier{platform: "telegram", user: "ann"}
	tr.refund(ann) // nothing to give back
	for i := range 3 * maxTries {
		if !tr.take(ann, start.Add(time.Duration(i))) {
			t.Fatalf("try %d refused, though all before were given back", i)
		}
		tr.refund(ann)
	}
	if len(tr.at) != 0 {
		t.Errorf("%d people remembered, want none", len(tr.at))
	}
}
