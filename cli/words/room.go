package words

import (
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store"
)

// nearlyFull is from how many percent of its room on a buffer is said to fill up.
const nearlyFull = 80

// ofRoom is that the room for what waits for an instance is nearly taken.
func ofRoom(i manage.InstanceStatus, lane store.Lane, most store.Limits) finding.List {
	entries, bytes := share(int64(lane.Entries), int64(most.MaxEntries)), share(lane.Bytes, most.MaxBytes)
	if max(entries, bytes) < nearlyFull {
		return nil
	}
	what, setting := fmt.Sprintf("%d %% of its room for waiting messages is taken: %d of %d messages", entries, lane.Entries, most.MaxEntries), "max_entries"
	if bytes > entries {
		what, setting = fmt.Sprintf("%d %% of its room for waiting messages is taken: %d of %d KiB", bytes, lane.Bytes>>10, most.MaxBytes>>10), "max_bytes"
	}
	help := "start the gateway"
	if i.State == manage.Connected {
		help = "it is connected: if that does not get less, look at the gateway's log"
	}
	return finding.BacklogFilling.Alone("gateway "+string(i.ID), what, help+"; a larger "+setting+" under [delivery] and a restart of the server give more room")
}

// share is how many percent of the whole a part is.
func share(part, whole int64) int64 { return int64(float64(part) / float64(whole) * 100) }
