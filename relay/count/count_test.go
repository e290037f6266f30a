package count

import (
	"regexp"
	"slices"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay/gate"
)

func TestNames(t *testing.T) {
	for i, name := range names[1:] {
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(name) { // metrics and their labels are made of them
			t.Errorf("%q is no name for a counter", name)
		}
		if !regexp.MustCompile(`^[a-z].*[a-z]$`).MatchString(Help(name)) {
			t.Errorf("%s counts %q", name, Help(name))
		}
		if slices.Contains(names[:i+1], name) {
			t.Errorf("two counters are called %q", name)
		}
	}
}

func TestTotals(t *testing.T) {
	var totals Totals
	if len(totals.n) < len(names) {
		t.Fatalf("%d counters in %d places", len(names), len(totals.n))
	}
	for name, n := range totals.Snapshot() { // invariant 2
		if n != 0 {
			t.Errorf("%s begins with %d", name, n)
		}
	}
	totals.Add(Ack, 1)
	totals.Add(Ack, 2)
	for _, r := range gate.Reasons() {
		totals.Add(Event(r), 4)
	}
	got := totals.Snapshot()
	if len(got) != len(names)-1 || got["ack"] != 3 || got["event_delivered"] != 4 || got["event_store_error"] != 4 || got["takeover"] != 0 {
		t.Errorf("totals %v", got)
	}
}
