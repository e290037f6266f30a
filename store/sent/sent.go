// Package sent is the log of which instance sent which message, and set which reaction, for a while: only who did may
// change it.
//
// What no commit has taken along yet waits in memory (table.Notes). What a crash loses counts as a message that nobody
// remembers.
package sent

import (
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of what was sent: platform|bot|chat|message -> Record, and of reactions, with their names
// behind the message.
const Bucket = "sent"

const (
	// Kept is how long it is remembered which instance sent a message.
	Kept = 48 * time.Hour
	// Held is how long an instance that removes a bot's only reaction on a message has the place to itself: the next
	// one follows when a turn ends, and nobody's comes between.
	Held = time.Minute
	// Max is how many messages and reactions are remembered of one instance, the newest.
	Max = 5000
	// Spare is how many more there may be before the oldest are dropped.
	Spare = 500
)

// Record says which instance sent a message, or set a reaction, and when.
type Record struct {
	Instance relay.InstanceID `json:"instance"`
	At       time.Time        `json:"at"`
}

// Key is where it is remembered who sent the message.
func Key(c relay.Chat, m relay.MessageID) []byte {
	return table.Key(c.Bot.Platform, string(c.Bot.ID), string(c.ID), string(m))
}

// ReactionKey is where it is remembered who set the reaction.
func ReactionKey(r relay.Reaction) []byte {
	return table.Key(r.Chat.Bot.Platform, string(r.Chat.Bot.ID), string(r.Chat.ID), string(r.Message), r.Name)
}

// Removed is the time to note of a reaction that is removed now: it is forgotten at once, and a bot's only one after Held.
func Removed(r relay.Reaction, now time.Time) time.Time {
	if r.Name == "" {
		now = now.Add(Held)
	}
	return now.Add(-Kept)
}

// Counts say how many messages are remembered of an instance, about: they decide when the oldest are looked for.
type Counts map[relay.InstanceID]int

// Count is how many there are.
func Count(t *bolt.Tx) Counts {
	out := make(Counts)
	for _, r := range table.Readable[Record](t, Bucket) {
		out[r.Instance]++
	}
	return out
}

// Ride adds notes to a transaction that is about to be committed, but for those of instances that are closed: what a
// revoked one sent is nobody's. The counts it returns are those once the transaction is.
func (c Counts) Ride(w *table.Writer, notes map[string]Record, closed func(relay.InstanceID) bool) (Counts, error) {
	if len(notes) == 0 {
		return c, nil
	}
	next := maps.Clone(c)
	added := make(map[relay.InstanceID]bool)
	for k, r := range notes {
		if closed(r.Instance) {
			continue
		}
		if err := w.Put(Bucket, []byte(k), r); err != nil {
			return nil, err
		}
		next[r.Instance]++
		added[r.Instance] = true
	}
	for i := range added {
		if next[i] <= Max+Spare {
			continue
		}
		var err error
		if next[i], err = trim(w, i); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// trim drops the oldest of what is remembered of i, and returns how many are left.
func trim(w *table.Writer, i relay.InstanceID) (left int, err error) {
	type row struct {
		key []byte
		at  time.Time
	}
	var mine []row
	for k, v := range table.Under(w.Tx, Bucket, nil) {
		if r, err := table.Decode[Record](k, v); err == nil && r.Instance == i {
			mine = append(mine, row{slices.Clone(k), r.At})
		}
	}
	sort.SliceStable(mine, func(i, j int) bool { return mine[i].at.After(mine[j].at) }) // of one time: by key
	for _, r := range mine[min(Max, len(mine)):] {
		if err := w.Delete(Bucket, r.key); err != nil {
			return 0, err
		}
	}
	return min(Max, len(mine)), nil
}
