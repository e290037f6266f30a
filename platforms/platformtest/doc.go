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
