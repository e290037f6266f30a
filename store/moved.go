package store

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// MovedRecord says which id a chat has now. It stands under the platform and an id the chat had
// before, and is there for as long as somebody may still use that one.
type MovedRecord struct {
	Platform relay.PlatformID `json:"platform"`
	From     relay.ChatID     `json:"from"`
	To       relay.ChatID     `json:"to"` // never itself the From of another record
	At       time.Time        `json:"at"`
}

func movedKey(p relay.PlatformID, c relay.ChatID) []byte { return table.Key(p, string(c)) }

// CurrentChat is the id that the chat once known as c has now: c itself, unless it has moved.
func (db *DB) CurrentChat(ctx context.Context, p relay.PlatformID, c relay.ChatID) (relay.ChatID, error) {
	return get(ctx, db, "current id of a chat", func(t *bolt.Tx) (relay.ChatID, error) { return current(t, p, c) })
}

func current(t *bolt.Tx, p relay.PlatformID, c relay.ChatID) (relay.ChatID, error) {
	if c == "" {
		return c, nil
	}
	r, ok, err := table.Load[MovedRecord](t, BucketMoved, movedKey(p, c))
	if err != nil || !ok {
		return c, err
	}
	return r.To, nil
}

// moveIDs remembers that From is now called To, and so is what was called From before. The newest
// word counts: To is an id in use from now on.
func (t *tx) moveIDs(m Move, now time.Time) error {
	if err := t.Delete(BucketMoved, movedKey(m.Platform, m.To)); err != nil {
		return err
	}
	for _, k := range table.KeysUnder(t.Tx, BucketMoved, table.Prefix(m.Platform)) {
		r, _, err := table.Load[MovedRecord](t.Tx, BucketMoved, k)
		if err != nil || r.To != m.From { // a damaged one is refused to whoever asks for it
			continue
		}
		r.To = m.To
		if err := t.Put(BucketMoved, k, r); err != nil {
			return err
		}
	}
	return t.Put(BucketMoved, movedKey(m.Platform, m.From), MovedRecord{Platform: m.Platform, From: m.From, To: m.To, At: now})
}

// chatsInUse are the chats, by the keys they would have as moved ones, that there are conversations
// about, and those that grants or bindings name.
func chatsInUse(t *bolt.Tx) (talked, held map[string]bool) {
	talked, held = make(map[string]bool), make(map[string]bool)
	for _, c := range table.Readable[Conversation](t, bucketConversations) {
		talked[string(movedKey(c.Bot.Platform, c.Chat))] = true
		if c.Parent != "" {
			talked[string(movedKey(c.Bot.Platform, c.Parent))] = true
		}
	}
	for _, g := range table.Readable[Grant](t, BucketGrants) {
		held[string(movedKey(g.Platform, g.Chat))] = true
	}
	for _, b := range table.Readable[Binding](t, BucketBindings) {
		held[string(movedKey(b.Platform, b.DMChat))] = true
	}
	return talked, held
}

// moved drops the ids of chats that nobody talks in any more: at once when nobody has anything to do
// with the chat at all, else after the time that a conversation would have had.
func (s *sweep) moved(t *tx) error {
	keys := table.KeysUnder(t.Tx, BucketMoved, nil)
	if len(keys) == 0 {
		return nil
	}
	talked, held := chatsInUse(t.Tx)
	return sweepOut(s, t, BucketMoved, new(int), func(r MovedRecord) bool {
		to := movedKey(r.Platform, r.To)
		return !talked[string(to)] && (!held[string(to)] || s.now.Sub(r.At) > keepSilent)
	})
}
