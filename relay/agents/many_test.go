package agents

import (
	"fmt"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// TestStatesOfMany: each of many receipts says what became of its own entry, also in flight, and over a restart.
func TestStatesOfMany(t *testing.T) {
	r := newRig(t)
	r.enroll("home")
	var all []*program
	for n := range 3 {
		all = append(all, r.add(fmt.Sprint("p", n), false, "home"))
	}
	r.desk.rates = unlimited()
	for n := range 30 {
		all[n%3].call("POST", "/agents/deliver/home", payloadOf(fmt.Sprint(n), fmt.Sprint("text ", n))).want(t, 200, "")
	}
	states := func(want func(n int) string) {
		t.Helper()
		r.desk.rates = unlimited()
		for n := range 30 {
			if got := all[n%3].call("GET", fmt.Sprint("/agents/receipt/", n, "?agent=home"), nil).want(t, 200, ""); got.body["state"] != want(n) {
				t.Errorf("%d: %s, want %s", n, got.raw, want(n))
			}
		}
	}
	states(func(int) string { return "waiting" })
	r.restart()
	states(func(int) string { return "waiting" })
	g := r.dial("home", local.LoopbackID)
	for range 3 { // of three programs, so no turn is waited for
		g.inbound()
	}
	wait.Until(t, "the third is taken", func() bool {
		return all[2].call("GET", "/agents/receipt/2?agent=home", nil).body["state"] == "taken"
	})
	states(func(n int) string {
		if n < 3 {
			return "taken"
		}
		return "waiting"
	})
}
