// Package platformtest is the conformance suite: what every platform must do, driven from the
// network's side. It knows no network; a Harness drives one.
//
// It is not a unit test of a platform's parts (those stand beside the parts), and it never looks
// inside a platform: all it uses is platforms.Platform and its abilities on one side, and the
// Harness on the other.
//
// # How to put a platform under it
//
// In the platform's own folder, write a fake of the network (an httptest server for most), and a
// type that satisfies Harness by steering that fake. Then:
//
//	func TestConformance(t *testing.T) {
//		platformtest.Run(t, func(t *testing.T) platformtest.Harness {
//			return newHarness(t) // a fresh network with Ann, Bob and the rooms; t.Cleanup closes it
//		})
//	}
//
// The harness builds its bot in Open, with the log of a platformtest.Log and a credential that is
// long and unmistakable, because the suite searches for it. Open is called a second time to play
// a restart: a new Platform on the same network, which remembers what the bot had confirmed.
//
// Nothing in the suite sleeps for a result. It waits on channels and on contexts with generous
// ends, so real sockets are welcome. Waits a platform makes after a failure count towards the
// suite's time: let the harness configure short ones.
//
// # The twelve checks
//
//	 1  stops:       Run returns nil soon after its context ends, and no goroutine is left.
//	 2  cursor:      The cursor does not move past an event before Accept returned nil.
//	 3  again:       When Accept fails, the same events come again, before any later one.
//	 4  order:       Events of one chat arrive in order, also across a reconnect.
//	 5  sources:     Chats that differ only in scope get different sources; a thread differs from its parent.
//	 6  own:         The bot's own messages are not events (or are marked as Own).
//	 7  repair:      A dropped connection is repaired without help; a revoked credential ends Run with an error.
//	 8  cancelled:   Send on a cancelled context sends nothing and is NotSent.
//	 9  unclear:     A connection that breaks after the request left is MaybeSent, and is not repeated.
//	10  abilities:   Every ability it implements is in Ops, and works; every other is refused.
//	11  length:      A message of the advertised length in the advertised unit is one message, one more is not.
//	12  secrets:     No error, status, log line or event contains the credential, and no log line what people wrote.
//
// Every check is proved in this package's tests by a platform that breaks exactly that rule.
package platformtest

import (
	"context"
	"testing"
	"time"
)

const (
	// limit bounds one check. It is far beyond what any check needs, so that a slow machine
	// fails nothing; only a platform that never does what is waited for meets it.
	limit = time.Minute
	// quiet is how long the suite gives a broken platform to betray itself where the right
	// behaviour is to do nothing.
	quiet = 200 * time.Millisecond
)

// check is one rule of the contract: nil means that the harness's platform keeps it.
type check struct {
	name string
	run  func(ctx context.Context, h Harness) error
}

// checks are the twelve rules, in the order of the package comment.
func checks() []check {
	return []check{
		{"01 stops", checkStops},
		{"02 cursor", checkCursor},
		{"03 again", checkAgain},
		{"04 order", checkOrder},
		{"05 sources", checkSources},
		{"06 own", checkOwn},
		{"07 repair", checkRepair},
		{"08 cancelled", checkCancelled},
		{"09 unclear", checkUnclear},
		{"10 abilities", checkAbilities},
		{"11 length", checkLength},
		{"12 secrets", checkSecrets},
	}
}

// Run puts a platform through all checks, each as a subtest on a harness of its own. open may use
// its t for cleanup and to fail.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			h := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := c.run(ctx, h); err != nil {
				t.Errorf("%v\nwhat the platform logged:\n%s", err, h.Logged())
			}
		})
	}
}
