package cli

import "github.com/hermes-connector/hermes-connector/relay/hub"

// counterNames is what this program counts: what it shows to Prometheus before it happens for the
// first time. A counter that appears with its first event hides that event from every rate.
func counterNames() []string {
	return []string{
		"ack", "ack_ignored",
		"action_declined", "action_maybe_sent", "action_not_sent", "action_ok",
		"answer_dropped", "caller_refused", "commands_left",
		"event_control", "event_delivered", "event_duplicate", "event_no_binding", "event_not_addressed", "event_not_principal",
		"event_not_visible", "event_other_bot", "event_other_command", "event_oversize", "event_own_message", "event_store_error",
		"event_undecided",
		"going_idle", "interrupt_unknown", "overflowed", "placeholder_left", "quarantined",
		"session_bad_ack", "session_bad_frame", "session_busy", "session_late", "session_many_bytes", "session_many_faults",
		"session_many_frames", "session_many_hellos", "session_many_idles", "session_many_interrupts",
		"session_no_hello", "session_no_pong", "session_panic", "session_replaced", "session_slow_closed",
		"session_unfinished", "session_unknown_frame",
		"settle_dropped", "snapshot_failed", "snapshot_taken", "swept_dead_letters", "swept_expired_entries",
		"takeover", "too_many_connections", "too_many_silent",
		"wake_blocked", "wake_failed", "wake_sent",
	}
}

// fromZero is a hub whose counters are all there from the start.
type fromZero struct{ *hub.Hub }

func (h fromZero) Counters() map[string]uint64 {
	all := h.Hub.Counters()
	for _, name := range counterNames() {
		all[name] += 0
	}
	return all
}
