package store

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/sent"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Sent is the log of which instance sent which message. All methods: any goroutine.
type Sent struct {
	db    *DB
	notes table.Notes[sent.Record]
	count sent.Counts // of what is on disk; the writer's
}

// Note remembers that i sent messages in a chat. It does not block, and writes with the next
// commit. At most the newest 5,000 of an instance are remembered, for 48 hours.
func (s *Sent) Note(i relay.InstanceID, c relay.Chat, ids ...relay.MessageID) {
	now := s.db.now()
	for _, m := range ids {
		if m != "" {
			s.notes.Set(sent.Key(c, m), sent.Record{Instance: i, At: now})
		}
	}
}

// By is the instance that sent the message; ok is false when that is not remembered.
func (s *Sent) By(ctx context.Context, c relay.Chat, m relay.MessageID) (i relay.InstanceID, ok bool, err error) {
	k := sent.Key(c, m)
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
	return r.Instance, ok && s.db.now().Sub(r.At) <= sent.Kept, nil
}
