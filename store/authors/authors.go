// Package authors is the log of which instance sent which message and set which reaction, for a while: only that
// instance may change it.
//
// Notes wait in memory until a commit takes them along (table.Notes). If a crash loses notes, the authors of their
// messages are not known.
package authors

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Bucket is the bucket of sent messages: platform|bot|chat|message -> Record, and of reactions, with their names behind
// the message.
const Bucket = "sent"

const (
	// Kept is how long the log remembers which instance sent a message.
	Kept = 48 * time.Hour
	// Held is for how long an instance that removed a bot's only reaction on a message has the place to itself: the
	// instance sets the next reaction when its turn ends, and no other instance's reaction must come between.
	Held = time.Minute
	// Max is how many messages and reactions of one instance are remembered, the newest.
	Max = 5000
	// Spare is how many more than Max there may be before the oldest are dropped.
	Spare = 500
)

// Record says which instance sent a message, or set a reaction, and when.
type Record struct {
	Instance relay.InstanceID `json:"instance"`
	At       time.Time        `json:"at"`
}

// key returns the key of the record of a message's author.
func key(c relay.Chat, m relay.MessageID) []byte {
	return table.Key(c.Bot.Platform, string(c.Bot.ID), string(c.ID), string(m))
}

// reactionKey returns the key of the record of who set a reaction.
func reactionKey(r relay.Reaction) []byte {
	return table.Key(r.Chat.Bot.Platform, string(r.Chat.Bot.ID), string(r.Chat.ID), string(r.Message), r.Name)
}

// Log knows who sent which message and set which reaction. Its methods may be called from any goroutine.
type Log struct {
	db    *table.DB
	notes table.Notes[Record]
	// counts say about how many records of an instance are on disk: if they are too many, Ride looks for the oldest.
	// Only the writer uses counts.
	counts map[relay.InstanceID]int
}

// New makes the log of db. Load must be called before anybody else uses it.
func New(db *table.DB) *Log { return &Log{db: db} }

// Load counts the stored records.
func (l *Log) Load(t *bolt.Tx) {
	l.counts = make(map[relay.InstanceID]int)
	for _, r := range table.Readable[Record](t, Bucket) {
		l.counts[r.Instance]++
	}
}

// Note remembers that i sent messages in a chat. It does not block; the next commit stores it. At most the newest 5,000
// of an instance are remembered, reactions among them, for 48 hours.
func (l *Log) Note(i relay.InstanceID, c relay.Chat, ids ...relay.MessageID) {
	now := l.db.Now()
	for _, m := range ids {
		if m != "" {
			l.notes.Set(key(c, m), Record{Instance: i, At: now})
		}
	}
}

// NoteReaction remembers that i set a reaction, or removed it, as Note does. A reaction that was removed is forgotten
// at once; if it was the bot's only one on the message, after Held.
func (l *Log) NoteReaction(i relay.InstanceID, r relay.Reaction, removed bool) {
	at := l.db.Now()
	switch {
	case removed && r.Name == "":
		at = at.Add(Held - Kept)
	case removed:
		at = at.Add(-Kept)
	}
	l.notes.Set(reactionKey(r), Record{Instance: i, At: at})
}

// By returns the instance that sent the message; ok is false when that is not remembered.
func (l *Log) By(ctx context.Context, c relay.Chat, m relay.MessageID) (i relay.InstanceID, ok bool, err error) {
	return l.by(ctx, key(c, m))
}

// ReactionBy is By for a reaction.
func (l *Log) ReactionBy(ctx context.Context, r relay.Reaction) (i relay.InstanceID, ok bool, err error) {
	return l.by(ctx, reactionKey(r))
}

func (l *Log) by(ctx context.Context, k []byte) (i relay.InstanceID, ok bool, err error) {
	r, ok := l.notes.Get(k)
	if !ok {
		r, ok, err = table.Find[Record](ctx, l.db, "sender of a message", Bucket, k)
	}
	return r.Instance, ok && l.db.Now().Sub(r.At) < Kept, err
}

// Ride adds the waiting notes to a transaction that is about to be committed, except those of closed instances:
// messages of a revoked instance belong to nobody. stored is as in table.Notes.
func (l *Log) Ride(w *table.Writer, closed func(relay.InstanceID) bool) (stored func(), err error) {
	next := l.counts
	forget, err := l.notes.Ride(func(notes map[string]Record) error {
		next = maps.Clone(next)
		for k, r := range notes {
			if closed(r.Instance) {
				continue
			}
			if err := w.Put(Bucket, []byte(k), r); err != nil {
				return err
			}
			next[r.Instance]++
		}
		for i, n := range next {
			if n <= Max+Spare {
				continue
			}
			left, err := trim(w, i)
			if err != nil {
				return err
			}
			next[i] = left
		}
		return nil
	})
	if forget == nil {
		return nil, err
	}
	return func() {
		l.counts = next
		forget()
	}, err
}

// trim drops the oldest records of i, and returns how many are left.
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
	slices.SortStableFunc(mine, func(a, b row) int { return b.at.Compare(a.at) }) // those of the same time by key
	for _, r := range mine[min(Max, len(mine)):] {
		if err := w.Delete(Bucket, r.key); err != nil {
			return 0, err
		}
	}
	return min(Max, len(mine)), nil
}
