// Package platformtest is the conformance suite: what every platform must do, driven from the network's side.
// It knows no network and never looks inside a platform: it uses platforms.Bot and its abilities on one
// side, and a Harness, which steers the network, on the other.
//
// To put a platform under it, write in the platform's folder a fake of the network and a Harness that steers
// the fake. Then:
//
//	func TestConformance(t *testing.T) {
//		platformtest.Run(t, func(t *testing.T) platformtest.Harness {
//			return newHarness(t) // a fresh network with Ann, Bob and the places; t.Cleanup closes it
//		})
//	}
//
// The harness builds its bot in Open, with a platformtest.Log and a long, unmistakable credential, because the suite
// searches for it. A second Open plays a restart: a new Bot on the same network, which remembers what the bot had
// confirmed. Pauses after a failure count towards the suite's time: let the harness configure short ones.
//
// # The checks
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
//	10  abilities:   Every ability that the bot implements is in Ops, and works; every other is refused.
//	11  length:      A message of the advertised length in the advertised unit is one message, one more is not.
//	12  secrets:     No error, status, log line or event contains the credential, and no log line what people wrote.
//
// For platforms with the ability, if the Harness can test it (FileTaker, FileShower, Presser, Previewer):
//
//	13  files out:   A file arrives whole, once, with its caption; unclear is MaybeSent, and is not repeated.
//	14  files in:    A person's file has a reference that opens; a file that the network lost is a MediaError.
//	15  buttons:     A question has its buttons, on its last part; each press is an event of its own; they can be taken off.
//	16  context:     History returns the earlier messages of that place only, since the bot's last one, oldest first.
//	17  drafts:      A draft is no message; a final one is declined.
//	18  previews:    In every kind of message the network is told not to fetch the links.
//
// Every check is proved in this package's tests by a platform that breaks exactly that rule.
package platformtest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

const (
	// limit bounds one check. Only a platform that never does what the check waits for reaches it.
	limit = time.Minute
	// quiet is how long the suite waits for a fault when the right behaviour is to do nothing.
	quiet = 200 * time.Millisecond
)

// check is one rule of the contract; its result is nil if the harness's platform obeys it.
type check struct {
	name string
	run  func(ctx context.Context, h Harness) error
}

// checks are the rules, in the order of the package comment.
var checks = []check{
	{"01 stops", checkStops},
	{"02 cursor", checkCursor},
	{"03 again", checkAgain},
	{"04 order", working(checkOrder)},
	{"05 sources", working(checkSources)},
	{"06 own", working(checkOwn)},
	{"07 repair", working(checkRepair)},
	{"08 cancelled", working(checkCancelled)},
	{"09 unclear", working(checkUnclear)},
	{"10 abilities", working(checkAbilities)},
	{"11 length", working(checkLength)},
	{"12 secrets", working(checkSecrets)},
	{"13 files out", working(checkFilesOut)},
	{"14 files in", working(checkFilesIn)},
	{"15 buttons", working(checkButtons)},
	{"16 context", working(checkContext)},
	{"17 drafts", working(checkDrafts)},
	{"18 previews", working(checkPreviews)},
}

// Run puts a platform through all checks, each as a subtest on a harness of its own; all but the first run side by
// side. open may use its t for cleanup and to fail.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	runIn(t, func(t *testing.T, check func(t *testing.T)) { check(t) }, open)
}

// RunInBubbles is Run for a network without sockets (Pipes): each check is in a bubble of synctest, where waiting takes no
// time.
func RunInBubbles(t *testing.T, open func(t *testing.T) Harness) { runIn(t, synctest.Test, open) }

func runIn(t *testing.T, place func(t *testing.T, check func(t *testing.T)), open func(t *testing.T) Harness) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			if c.name != checks[0].name { // the first check counts goroutines
				t.Parallel() // most of a check is waiting
			}
			place(t, func(t *testing.T) {
				h := open(t)
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				if err := c.run(ctx, h); err != nil {
					t.Errorf("%v\nwhat the platform logged:\n%s", err, h.Logged())
				}
			})
		})
	}
}
