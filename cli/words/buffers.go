package words

import (
	"fmt"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/store"
)

// givenUp has, for each reason of dead letters, the words that follow their number, and what helps. It is in the order
// of a finding: reasons that the operator cannot remove come first.
var givenUp = []struct {
	why        store.DeadReason
	said, help string
}{
	{store.DeadOversize, "too large (a gateway takes 1 MiB)", "a message that is too large cannot be delivered: ask for the text in parts, or as a file"},
	{store.DeadPoison, "that could not be converted for the gateway", "a message that cannot be converted is a fault of the connector: report it, and replay after an update"},
	{store.DeadDeaths, "on which the gateway's connection ended again and again", "look in the gateway's log for the reason"},
	{store.DeadOverflow, "because too many waited", "keep the gateway running, or raise max_entries or max_bytes under [delivery]"},
	{store.DeadAge, "that waited too long for the gateway", "keep the gateway running, or raise max_age under [delivery]"},
	{store.DeadRemoved, "because the gateway was revoked", "enroll it again before you replay"},
	{store.DeadUnbound, "because the person was unlinked", "link the person again before you replay"},
}

// lettersOf returns the finding that an instance has dead letters: how many for which reasons, and what helps.
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
		help = []string{quoted(ops.Enroll.Row, name) + " makes a new gateway, which can get them"}
	case i.Dead > reasons[store.DeadOversize]:
		help = append(help, quoted(ops.Replay.Row, name)+" tries again")
	}
	help = append(help, quoted(ops.Drop.Row, name)+" deletes them")
	return finding.DeadLetters.Of("gateway "+name,
		manage.Counted(i.Dead, "message was given up", "messages were given up")+": "+strings.Join(said, ", "), strings.Join(help, "; "))
}

// nearlyFull is the percentage of its room from which on a buffer is reported as nearly full.
const nearlyFull = 80

// ofRoom returns the finding that the room for an instance's waiting messages is nearly used up. end is the command
// that ends the wait; empty: there is none.
func ofRoom(i manage.InstanceStatus, lane store.Lane, most store.Limits, end string) finding.List {
	entries, bytes := share(int64(lane.Entries), int64(most.MaxEntries)), share(lane.Bytes, most.MaxBytes)
	if max(entries, bytes) < nearlyFull {
		return nil
	}
	what, setting := fmt.Sprintf("its room for waiting messages is %d %% full: %d of %d messages", entries, lane.Entries, most.MaxEntries), "max_entries"
	if bytes > entries {
		what, setting = fmt.Sprintf("its room for waiting messages is %d %% full: %d of %d KiB", bytes, lane.Bytes>>10, most.MaxBytes>>10), "max_bytes"
	}
	help := "start the gateway"
	if end != "" {
		help = "these messages wait because of quiet hours: `" + end + "` ends it"
	} else if i.State == manage.Connected {
		help = "it is connected: if the number does not fall, look at the gateway's log"
	}
	return finding.BacklogFilling.Alone("gateway "+string(i.ID), what, help+"; for more room raise "+setting+" under [delivery] and restart the server")
}

// share returns part as a percentage of whole.
func share(part, whole int64) int64 { return int64(float64(part) / float64(whole) * 100) }
