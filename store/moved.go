package store

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/binding"
	"github.com/hermes-connector/hermes-connector/store/grant"
	"github.com/hermes-connector/hermes-connector/store/moved"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// CurrentChat is the id that the chat once known as c has now: c itself, unless it has moved.
func (db *DB) CurrentChat(ctx context.Context, p relay.PlatformID, c relay.ChatID) (relay.ChatID, error) {
	return get(ctx, db, "current id of a chat", func(t *bolt.Tx) (relay.ChatID, error) { return moved.Current(t, p, c) })
}

// chatsInUse are the chats, by the keys they would have as moved ones, that there are conversations
// about, and those that grants or bindings name.
func chatsInUse(t *bolt.Tx) (talked, held map[string]bool) {
	talked, held = make(map[string]bool), make(map[string]bool)
	for _, c := range table.Readable[Conversation](t, bucketConversations) {
		talked[string(moved.Key(c.Bot.Platform, c.Chat))] = true
		if c.Parent != "" {
			talked[string(moved.Key(c.Bot.Platform, c.Parent))] = true
		}
	}
	for _, g := range table.Readable[Grant](t, grant.Bucket) {
		held[string(moved.Key(g.Platform, g.Chat))] = true
	}
	for _, b := range table.Readable[Binding](t, binding.Bucket) {
		held[string(moved.Key(b.Platform, b.DMChat))] = true
	}
	return talked, held
}

// moved drops the ids of chats that nobody talks in any more: at once when nobody has anything to do
// with the chat at all, else after the time that a conversation would have had.
func (s *sweep) moved(t *tx) error {
	keys := table.KeysUnder(t.Tx, moved.Bucket, nil)
	if len(keys) == 0 {
		return nil
	}
	talked, held := chatsInUse(t.Tx)
	return sweepOut(s, t, moved.Bucket, new(int), func(r moved.Record) bool {
		to := moved.Key(r.Platform, r.To)
		return !talked[string(to)] && (!held[string(to)] || s.now.Sub(r.At) > keepSilent)
	})
}
