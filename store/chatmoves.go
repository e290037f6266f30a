package store

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// BucketMoves is the bucket of chats that got a new id: platform|old chat -> Move.
const BucketMoves = "moved"

// Move says that a chat's id changed from From to To for good: whoever uses the old id means the chat that has the new
// id. Its key is the platform and the old id. It is kept for as long as somebody may still use the old id.
type Move struct {
	Platform relay.PlatformID `json:"platform"`
	From     relay.ChatID     `json:"from"`
	To       relay.ChatID     `json:"to"` // never itself the From of another record
	At       time.Time        `json:"at"`
}

func moveKey(p relay.PlatformID, c relay.ChatID) []byte { return table.Key(p, string(c)) }

// MoveChat rewrites grants, routes, conversations, undecided events, free-response scopes and the direct-message chats
// of bindings from one chat id to another, in one transaction. If the new id is granted already, that grant stays and
// the old one is dropped; a route is dropped, too, if another tenant's route or grant forbids it there. Entries in the
// lanes keep the old id, so gateways go on using it: CurrentChat translates it. m.At is set to now.
func (db *DB) MoveChat(ctx context.Context, m Move) error {
	m.At = db.now()
	return db.change(ctx, nil, fmt.Sprintf("move chat on %s", m.Platform), func(t *tx) error { return moveChat(t.Writer, m) })
}

// moveChat is MoveChat's transaction.
func moveChat(w *table.Writer, m Move) error {
	if m.From == m.To || m.From == "" || m.To == "" {
		return nil
	}
	before := w.Changes
	for _, step := range []func(*table.Writer, Move) error{moveGrants, moveRoutes, moveConversations, moveBindings, moveScopes, movePending} {
		if err := step(w, m); err != nil {
			return err
		}
	}
	if w.Changes == before { // nobody has anything to do with the old id
		return nil
	}
	// To is in use from now on, so a move away from it is out of date. Moves that led to From now lead to To.
	if err := w.Delete(BucketMoves, moveKey(m.Platform, m.To)); err != nil {
		return err
	}
	for _, k := range table.KeysUnder(w.Tx, BucketMoves, table.Prefix(m.Platform)) {
		old, _, err := table.Load[Move](w.Tx, BucketMoves, k)
		if err != nil || old.To != m.From { // a damaged record stays: CurrentChat returns an error for it
			continue
		}
		old.To = m.To
		if err := w.Put(BucketMoves, k, old); err != nil {
			return err
		}
	}
	return w.Put(BucketMoves, moveKey(m.Platform, m.From), m)
}

// CurrentChat returns the id that the chat once known as c has now: c itself, unless it has moved.
func (db *DB) CurrentChat(ctx context.Context, p relay.PlatformID, c relay.ChatID) (relay.ChatID, error) {
	return table.Get(ctx, db.records, "current id of a chat", func(t *bolt.Tx) (relay.ChatID, error) { return db.recents.currentChat(t, p, c) })
}

// currentChat is DB.CurrentChat.
func (rs *recents) currentChat(t *bolt.Tx, p relay.PlatformID, c relay.ChatID) (relay.ChatID, error) {
	if c == "" {
		return c, nil
	}
	return rs.chats.get(t, Move{Platform: p, From: c}, func() (relay.ChatID, error) {
		m, ok, err := table.Load[Move](t, BucketMoves, moveKey(p, c))
		if err != nil || !ok {
			return c, err
		}
		return m.To, nil
	})
}
