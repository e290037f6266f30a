package words

import (
	"fmt"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store"
)

// givenUp is what is said of dead letters of each reason behind their number, and what helps; the ones that nothing helps first.
var givenUp = []struct {
	why        store.DeadReason
	said, help string
}{
	{store.DeadOversize, "too large for a gateway, which takes 1 MiB", "what is too large cannot be delivered: ask for it in parts, or as a file"},
	{store.DeadPoison, "that could not be put into a form that gateways read", "that is a fault of the connector: report it, and replay after an update"},
	{store.DeadDeaths, "at which the gateway's connection ended again and again", "look into the gateway's log for what ends it"},
	{store.DeadOverflow, "because too many waited", "keep the gateway running, or raise max_entries or max_bytes under [delivery]"},
	{store.DeadAge, "that waited too long for the gateway", "keep the gateway running, or raise max_age under [delivery]"},
	{store.DeadRemoved, "because the gateway was revoked", "enroll it again before you replay"},
	{store.DeadUnbound, "because the person was unlinked", "link the person again before you replay"},
}

// lettersOf says why an instance has dead letters, with numbers, and what helps.
func lettersOf(i manage.InstanceStatus, reasons map[store.DeadReason]int) finding.Finding {
	var said, help []string
	for _, g := range givenUp {
		if n := reasons[g.why]; n > 0 {
			said, help = append(said, fmt.Sprint(n, " ", g.said)), append(help, g.help)
		}
	}
	name := string(i.ID)
	switch {
	case i.Revoked:
		help = []string{quoted(ops.Enroll.Row, name) + " makes a gateway that can get them"}
	case i.Dead > reasons[store.DeadOversize]:
		help = append(help, quoted(ops.Replay.Row, name)+" tries again")
	}
	help = append(help, quoted(ops.Drop.Row, name)+" deletes them")
	return finding.DeadLetters.Of("gateway "+name,
		manage.Counted(i.Dead, "message was given up", "messages were given up")+": "+strings.Join(said, ", "), strings.Join(help, "; "))
}

// nearlyFull is from how many percent of its room on a buffer is said to fill up.
const nearlyFull = 80

// ofRoom is that the room for what waits for an instance is nearly taken. end is the command that ends the wait; empty: there
// is none.
func ofRoom(i manage.InstanceStatus, lane store.Lane, most store.Limits, end string) finding.List {
	entries, bytes := share(int64(lane.Entries), int64(most.MaxEntries)), share(lane.Bytes, most.MaxBytes)
	if max(entries, bytes) < nearlyFull {
		return nil
	}
	what, setting := fmt.Sprintf("%d %% of its room for waiting messages is taken: %d of %d messages", entries, lane.Entries, most.MaxEntries), "max_entries"
	if bytes > entries {
		what, setting = fmt.Sprintf("%d %% of its room for waiting messages is taken: %d of %d KiB", bytes, lane.Bytes>>10, most.MaxBytes>>10), "max_bytes"
	}
	help := "start the gateway"
	if end != "" {
		help = "that they wait is wanted: `" + end + "` ends it"
	} else if i.State == manage.Connected {
		help = "it is connected: if that does not get less, look at the gateway's log"
	}
	return finding.BacklogFilling.Alone("gateway "+string(i.ID), what, help+"; a larger "+setting+" under [delivery] and a restart of the server give more room")
}

// share is how many percent of the whole a part is.
func share(part, whole int64) int64 { return int64(float64(part) / float64(whole) * 100) }
