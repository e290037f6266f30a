// Package count holds the closed set of the connector's counters, and their totals since the start, for `status` and
// the metrics.
//
// Invariants:
//
//  1. A counter's name is one of those in this package, never a text from a gateway or a person.
//  2. Every total is there from the start, as 0: a counter that appears with its first event hides
//     that event from every rate.
//  3. Names are stable: dashboards and alerts depend on them.
package count

import (
	"strings"
	"sync/atomic"

	"github.com/hermes-connector/hermes-connector/relay/gate"
)

// Counter is one of the counters below. The zero value is none.
type Counter int

// names are the counters' names, after that of the zero value; helps say what each counts. The lists grow while the
// package is set up, and never after that.
var (
	names = []string{""}
	helps = []string{""}
)

func counter(name, help string) Counter {
	names, helps = append(names, name), append(helps, help)
	return Counter(len(names) - 1)
}

// String returns the counter's name.
func (c Counter) String() string { return names[c] }

// Help returns what the counter of that name counts, in words; empty: there is no such counter.
func Help(name string) string {
	for c, n := range names {
		if n == name {
			return helps[c]
		}
	}
	return ""
}

// The counters.
var (
	Ack        = counter("ack", "entries that gateways acknowledged")
	AckIgnored = counter("ack_ignored", "acknowledgements of what was not in flight, which were ignored")
	// AckDelay adds up, for acknowledged messages, the milliseconds from when each was written, by its network's clock,
	// until its acknowledgement.
	AckDelay    = counter("ack_delay_milliseconds", "the milliseconds from when each acknowledged message was written until then")
	MessageSent = counter("message_sent", "messages that gateways sent: those of the actions that a person reads as one")

	ActionOK        = counter("action_ok", "actions that networks carried out")
	ActionDeclined  = counter("action_declined", "actions that the gateway may not do, or that the network refused")
	ActionNotSent   = counter("action_not_sent", "actions that certainly were not carried out")
	ActionMaybeSent = counter("action_maybe_sent", "actions of which nobody knows whether they were carried out")

	AnswerDropped   = counter("answer_dropped", "answers of the connector's own that were given up")
	CommandsLeft    = counter("commands_left", "slash commands of revoked gateways that could not be taken away")
	PlaceholderLeft = counter("placeholder_left", "placeholders of slash commands that could not be taken away")
	SettleDropped   = counter("settle_dropped", "presses of buttons whose message could not be changed")
	UnpromptDropped = counter("unprompt_dropped", "questions whose buttons could not be taken away")

	OutboxStored   = counter("outbox_stored", "answers that no network could take at once, and that were stored to be sent later")
	OutboxSent     = counter("outbox_sent", "stored answers that were sent")
	OutboxDeclined = counter("outbox_declined", "stored answers that were dropped because their agent may not write in the chat any more")
	OutboxRefused  = counter("outbox_refused", "stored answers that were dropped because the network refused them")
	OutboxUnknown  = counter("outbox_unknown", "stored answers of which nobody knew whether they were sent when their time was over")
	OutboxRemoved  = counter("outbox_removed", "stored answers that were deleted by the operator, or because their gateway was revoked")
	OutboxLate     = counter("outbox_late", "stored answers that could not be sent in time; their readers are told")
	OutboxFull     = counter("outbox_full", "answers that were not stored because too many of the agent's waited")

	CallerRefused      = counter("caller_refused", "connections that were turned away because their address, or strangers together, had too many")
	HeaderIgnored      = counter("web_header_ignored", "requests for web pages with the header that names who asks, and not from a trusted proxy")
	GoingIdle          = counter("going_idle", "times that a gateway said it goes to sleep")
	InterruptUnknown   = counter("interrupt_unknown", "interrupts of a chat in which nothing runs")
	Overflowed         = counter("overflowed", "messages that became dead letters because a buffer was full")
	Quarantined        = counter("quarantined", "payloads of networks that could not be read and were set aside")
	SweptDeadLetters   = counter("swept_dead_letters", "dead letters that were deleted because they were too old or too many")
	SweptExpired       = counter("swept_expired_entries", "waiting messages that became dead letters because they were too old")
	ReplyDropped       = counter("reply_dropped", "replies to programs that were dropped because too many waited")
	Takeover           = counter("takeover", "sessions that a newer session of the same agent replaced")
	TooManyConnections = counter("too_many_connections", "connections that were refused because their credential had too many")
	TooManySilent      = counter("too_many_silent", "connections that were closed because their credential had too many that never said hello")

	MediaHeld     = counter("media_held", "files that were fetched and kept")
	MediaTooLarge = counter("media_too_large", "files that were too large to keep")
	MediaGone     = counter("media_gone", "files that could not be fetched")
	MediaNoSpace  = counter("media_no_space", "files that found no room")
	MediaUploaded = counter("media_uploaded", "files that gateways sent")
	MediaServed   = counter("media_served", "files that gateways downloaded")
	MediaSourced  = counter("media_sourced", "files that were fetched from elsewhere, to be sent")
	MediaBlocked  = counter("media_blocked", "files that the guard did not let us ask for")
	MediaBusy     = counter("media_busy", "files that nobody moved because too many were moved at once")
	MediaRemoved  = counter("media_removed", "files that were removed because nobody needed them")
	MediaDamaged  = counter("media_damaged", "files that were not what was written")

	SessionBadFrame     = counter("session_bad_frame", "frames that could not be read and were skipped")
	SessionUnknownFrame = counter("session_unknown_frame", "frames of a type of another age, which were skipped")
	SessionBadAck       = counter("session_bad_ack", "acknowledgements of ids that nobody gave out")
	SessionPanic        = counter("session_panic", "frames and actions whose handling panicked")
	SessionBusy         = counter("session_busy", "actions that were refused because too many waited")
	SessionLate         = counter("session_late", "actions that were answered because their time was up")
	SessionReplaced     = counter("session_replaced", "waiting edits and typing signs that a newer one replaced")
	SessionSlow         = counter("session_slow_closed", "sessions that were closed because the gateway did not read")
	SessionNoPong       = counter("session_no_pong", "sessions that were closed because the gateway did not answer pings")
	SessionNoHello      = counter("session_no_hello", "sessions that were closed because no hello came")

	SessionManyBytes      = counter("session_many_bytes", "sessions that were closed because they sent too many bytes")
	SessionManyFrames     = counter("session_many_frames", "sessions that were closed because they sent too many frames")
	SessionManyFaults     = counter("session_many_faults", "sessions that were closed because too many of their frames could not be read")
	SessionManyHellos     = counter("session_many_hellos", "sessions that were closed because they said hello too often")
	SessionManyIdles      = counter("session_many_idles", "sessions that were closed because they went to sleep too often")
	SessionManyInterrupts = counter("session_many_interrupts", "sessions that were closed because they interrupted too often")
	SessionUnfinished     = counter("session_unfinished", "sessions that were closed because a frame of theirs did not end in time")

	SnapshotTaken  = counter("snapshot_taken", "nightly snapshots that were taken")
	SnapshotFailed = counter("snapshot_failed", "nightly snapshots that failed")

	WakeSent    = counter("wake_sent", "wake pokes that the target answered")
	WakeFailed  = counter("wake_failed", "wake pokes that the target did not answer, or with a status from 400 on")
	WakeBlocked = counter("wake_blocked", "wake pokes that the guard did not let out")
)

// events are the counters of the gate's verdicts.
var events = func() map[gate.Reason]Counter {
	all := make(map[gate.Reason]Counter)
	for _, r := range gate.Reasons() {
		help := "events of which the verdict was " + strings.ReplaceAll(string(r), "_", " ")
		if r == gate.Delivered { // its help must say that they were accepted, not that they arrived
			help = "events that were stored for a gateway"
		}
		all[r] = counter("event_"+string(r), help)
	}
	return all
}()

// The counters of web hooks: why requests were refused, and what networks reported about messages that they had
// accepted.
var (
	hookRefused = closed("hook_refused_", "calls of networks that were refused", "bad_signature", "stale_timestamp", "wrong_recipient", "unreadable", "not_stored", "of_group")
	hookNotes   = closed("hook_status_", "messages of which the network said what became of them", "queued", "sent", "delivered", "undelivered", "failed", "read")
)

// closed returns the counters of a closed set of words, with help before each word.
func closed(prefix, help string, words ...string) map[string]Counter {
	all := make(map[string]Counter, len(words))
	for _, w := range words {
		all[w] = counter(prefix+w, help+": "+strings.ReplaceAll(w, "_", " "))
	}
	return all
}

// HookRefused returns the counter of requests that were refused for a reason.
func HookRefused(reason string) Counter { return hookRefused[reason] }

// HookNote returns the counter of messages whose network reported the status note for them.
func HookNote(note string) Counter { return hookNotes[note] }

// Event returns the counter of a verdict.
func Event(r gate.Reason) Counter { return events[r] }

// Totals are the counts so far. The zero value is ready; its methods may be called from any goroutine.
type Totals struct{ n [128]atomic.Uint64 } // more than there are counters

// Add adds to a total.
func (t *Totals) Add(c Counter, by uint64) { t.n[c].Add(by) }

// Snapshot returns every total by its name.
func (t *Totals) Snapshot() map[string]uint64 {
	out := make(map[string]uint64, len(names))
	for i, name := range names[1:] {
		out[name] = t.n[i+1].Load()
	}
	return out
}
