package store

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/sent"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Sent is the log of which instance sent which message, and set which reaction. All methods: any goroutine.
type Sent struct {
	db    *DB
	notes table.Notes[sent.Record]
	count sent.Counts // of what is on disk; the writer's
}

// Note remembers that i sent messages in a chat. It does not block, and writes with the next
// commit. At most the newest 5,000 of an instance are remembered, reactions among them, for 48 hours.
func (s *Sent) Note(i relay.InstanceID, c relay.Chat, ids ...relay.MessageID) {
	now := s.db.now()
	for _, m := range ids {
		if m != "" {
			s.notes.Set(sent.Key(c, m), sent.Record{Instance: i, At: now})
		}
	}
}

// NoteReaction remembers that i set a reaction, or removed it, as Note does.
func (s *Sent) NoteReaction(i relay.InstanceID, r relay.Reaction, removed bool) {
	at := s.db.now()
	if removed {
		at = sent.Removed(r, at)
	}
	s.notes.Set(sent.ReactionKey(r), sent.Record{Instance: i, At: at})
}

// By is the instance that sent the message; ok is false when that is not remembered.
func (s *Sent) By(ctx context.Context, c relay.Chat, m relay.MessageID) (i relay.InstanceID, ok bool, err error) {
	return s.by(ctx, sent.Key(c, m))
}

// ReactionBy is By of a reaction.
func (s *Sent) ReactionBy(ctx context.Context, r relay.Reaction) (i relay.InstanceID, ok bool, err error) {
	return s.by(ctx, sent.ReactionKey(r))
}

func (s *Sent) by(ctx context.Context, k []byte) (i relay.InstanceID, ok bool, err error) {
	r, ok := s.notes.Get(k)
	if !ok {
		err = s.db.read(ctx, func(t *bolt.Tx) error {
			r, ok, err = table.Load[sent.Record](t, sent.Bucket, k)
			return err
		})
	}
	if err != nil {
		return "", false, fmt.Errorf("sender of a message: %w", err)
	}
	return r.Instance, ok && s.db.now().Sub(r.At) < sent.Kept, nil
}
