package store

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// Conversation is what is stored about i and c; ok is false when no event of c was delivered to i.
func (db *DB) Conversation(ctx context.Context, i relay.InstanceID, c relay.Chat) (out Conversation, ok bool, err error) {
	err = db.w.read(ctx, func(t *bolt.Tx) error {
		k := conversationKey(Conversation{Instance: i, Bot: c.Bot, Chat: c.ID})
		out, ok, err = load[Conversation](t, bucketConversations, k)
		return err
	})
	if err != nil {
		return Conversation{}, false, fmt.Errorf("conversation: %w", err)
	}
	return out, ok, nil
}

// ConversationsOn lists the conversations of i with a chat id on any bot, for routing an action
// that names nothing else.
func (db *DB) ConversationsOn(ctx context.Context, i relay.InstanceID, c relay.ChatID) ([]Conversation, error) {
	return db.conversations(ctx, prefix(i, string(c)))
}

// ConversationsOf lists all conversations of i, by chat.
func (db *DB) ConversationsOf(ctx context.Context, i relay.InstanceID) ([]Conversation, error) {
	return db.conversations(ctx, prefix(i))
}

func (db *DB) conversations(ctx context.Context, pre []byte) (out []Conversation, err error) {
	err = db.w.read(ctx, func(t *bolt.Tx) error {
		out, err = list[Conversation](t, bucketConversations, pre)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("conversations: %w", err)
	}
	return out, nil
}

// converse notes that an event was delivered. A record that says the same and is younger than
// an hour is left alone: it would cost a page for every message.
func (t *tx) converse(c Conversation) error {
	k := conversationKey(c)
	old, ok, err := load[Conversation](t.Tx, bucketConversations, k)
	if err != nil {
		return err
	}
	if ok && c.LastAt.Sub(old.LastAt) < refreshAfter {
		if old.LastAt = c.LastAt; old == c {
			return nil
		}
	}
	return t.put(bucketConversations, k, c)
}
