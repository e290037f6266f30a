// Package count is what the connector counts: the closed set of counters, and their totals since the
// start, for `status` and the metrics.
//
// Invariants:
//
//  1. A name is one of these, never what a gateway or a person sent.
//  2. Every total is there from the start, as 0: a counter that appears with its first event hides
//     that event from every rate.
//  3. Names are stable: dashboards and alerts rest on them.
package count

import (
	"sync/atomic"

	"github.com/hermes-connector/hermes-connector/relay/gate"
)

// Counter is one of the counters below. The zero value is none.
type Counter int

// names are the counters' names, behind that of none. The list grows while the package is set up, and
// never after that.
var names = []string{""}

// counter is compiled once, for the set is long.
//
//go:noinline
func counter(name string) Counter {
	names = append(names, name)
	return Counter(len(names) - 1)
}

// String is the counter's name.
func (c Counter) String() string { return names[c] }

// The counters.
var (
	Ack        = counter("ack")         // entries that gateways acknowledged
	AckIgnored = counter("ack_ignored") // acknowledgements of what is not in flight
	// AckDelay adds up the milliseconds from when each acknowledged message was written, by its network's clock, until then.
	AckDelay = counter("ack_delay_milliseconds")
	// MessageSent counts messages that gateways sent: those of the actions that a person reads as one.
	MessageSent = counter("message_sent")

	ActionOK        = counter("action_ok")
	ActionDeclined  = counter("action_declined")
	ActionNotSent   = counter("action_not_sent")
	ActionMaybeSent = counter("action_maybe_sent")

	// Answers of the connector's own that were given up.
	AnswerDropped   = counter("answer_dropped")
	CommandsLeft    = counter("commands_left")
	PlaceholderLeft = counter("placeholder_left")
	SettleDropped   = counter("settle_dropped")
	UnpromptDropped = counter("unprompt_dropped")

	CallerRefused      = counter("caller_refused") // connections turned away because their address, or strangers together, had too many
	GoingIdle          = counter("going_idle")
	InterruptUnknown   = counter("interrupt_unknown")
	Overflowed         = counter("overflowed")
	Quarantined        = counter("quarantined")
	SweptDeadLetters   = counter("swept_dead_letters")
	SweptExpired       = counter("swept_expired_entries")
	Takeover           = counter("takeover")
	TooManyConnections = counter("too_many_connections")
	TooManySilent      = counter("too_many_silent")

	// Files, by what became of them.
	MediaHeld     = counter("media_held")
	MediaTooLarge = counter("media_too_large")
	MediaGone     = counter("media_gone")
	MediaNoSpace  = counter("media_no_space")
	MediaUploaded = counter("media_uploaded") // sent by gateways
	MediaServed   = counter("media_served")   // that gateways downloaded
	MediaSourced  = counter("media_sourced")  // fetched from elsewhere, to be sent
	MediaBlocked  = counter("media_blocked")  // that the guard did not let us ask for
	MediaBusy     = counter("media_busy")     // moved by nobody, because too many were
	MediaRemoved  = counter("media_removed")  // nobody needed them
	MediaDamaged  = counter("media_damaged")  // not what was written

	SessionBadFrame     = counter("session_bad_frame")     // a line that is no frame; skipped
	SessionUnknownFrame = counter("session_unknown_frame") // a frame type of another age; skipped
	SessionBadAck       = counter("session_bad_ack")       // an acknowledgement of an id we never mint
	SessionPanic        = counter("session_panic")         // a frame or an action whose handling panicked
	SessionBusy         = counter("session_busy")          // an action refused because too many wait
	SessionLate         = counter("session_late")          // an action answered because its time was up
	SessionReplaced     = counter("session_replaced")      // a waiting edit or typing replaced by a newer one
	SessionSlow         = counter("session_slow_closed")   // closed because the gateway did not read
	SessionNoPong       = counter("session_no_pong")       // closed because the gateway did not answer pings
	SessionNoHello      = counter("session_no_hello")      // closed because no hello came

	// Sessions that were closed because a limit was passed.
	SessionManyBytes      = counter("session_many_bytes")
	SessionManyFrames     = counter("session_many_frames")
	SessionManyFaults     = counter("session_many_faults")
	SessionManyHellos     = counter("session_many_hellos")
	SessionManyIdles      = counter("session_many_idles")
	SessionManyInterrupts = counter("session_many_interrupts")
	SessionUnfinished     = counter("session_unfinished")

	SnapshotTaken  = counter("snapshot_taken")
	SnapshotFailed = counter("snapshot_failed")

	WakeSent    = counter("wake_sent")    // the target answered
	WakeFailed  = counter("wake_failed")  // the target did not, or with a status from 400 on
	WakeBlocked = counter("wake_blocked") // the guard did not let the request out
)

// events are the counters of the gate's verdicts.
var events = func() map[gate.Reason]Counter {
	all := make(map[gate.Reason]Counter)
	for _, r := range gate.Reasons() {
		all[r] = counter("event_" + string(r))
	}
	return all
}()

// Of web hooks: why requests were refused, and what networks told of messages that they had taken.
var (
	hookRefused = closed("hook_refused_", "bad_signature", "stale_timestamp", "wrong_recipient", "unreadable", "not_stored")
	hookNotes   = closed("hook_status_", "queued", "sent", "delivered", "undelivered", "failed", "read")
)

// closed are the counters of a closed set of words.
func closed(prefix string, words ...string) map[string]Counter {
	all := make(map[string]Counter, len(words))
	for _, w := range words {
		all[w] = counter(prefix + w)
	}
	return all
}

// HookRefused is the counter of requests that were refused for a reason.
func HookRefused(reason string) Counter { return hookRefused[reason] }

// HookNote is the counter of what networks told of messages.
func HookNote(note string) Counter { return hookNotes[note] }

// Event is the counter of a verdict.
func Event(r gate.Reason) Counter { return events[r] }

// Totals are what was counted so far. The zero value is ready; its methods may be called from any
// goroutine.
type Totals struct{ n [128]atomic.Uint64 } // more than there are counters

// Add adds to a total.
func (t *Totals) Add(c Counter, by uint64) { t.n[c].Add(by) }

// Snapshot is every total by its name.
func (t *Totals) Snapshot() map[string]uint64 {
	out := make(map[string]uint64, len(names))
	for i, name := range names[1:] {
		out[name] = t.n[i+1].Load()
	}
	return out
}
