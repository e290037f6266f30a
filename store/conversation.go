package store

import (
	"context"
	"fmt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// Conversation is what is stored about i and c; ok is false when no event of c was delivered to i.
func (db *DB) Conversation(ctx context.Context, i relay.InstanceID, c relay.Chat) (out Conversation, ok bool, err error) {
	err = db.read(ctx, func(t *bolt.Tx) error {
		k := conversationKey(Conversation{Instance: i, Bot: c.Bot, Chat: c.ID})
		out, ok, err = table.Load[Conversation](t, bucketConversations, k)
		return err
	})
	if err != nil {
		return Conversation{}, false, fmt.Errorf("conversation: %w", err)
	}
	return out, ok, nil
}

// ConversationFilter picks conversations: all of an instance, or all about a chat, or with neither all.
type ConversationFilter struct {
	Instance relay.InstanceID
	Chat     relay.Chat
}

// Conversations lists the conversations that f picks, of an instance by chat and of a chat by instance.
func (db *DB) Conversations(ctx context.Context, f ConversationFilter) (out []Conversation, err error) {
	err = db.read(ctx, func(t *bolt.Tx) error {
		switch {
		case f.Instance != "":
			out, err = table.List[Conversation](t, bucketConversations, table.Prefix(f.Instance))
		case f.Chat.ID != "":
			out, err = lookup[Conversation](t, bucketConversations, conversationsAbout(f.Chat))
		default:
			out, err = table.List[Conversation](t, bucketConversations, nil)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("conversations: %w", err)
	}
	return out, nil
}

// conversationsAbout is how the keys in the index begin of the conversations about a chat.
func conversationsAbout(c relay.Chat) []byte {
	return indexUnder(bucketConversations, byChat, string(c.Bot.Platform), string(c.Bot.ID), string(c.ID))
}

// Converse notes that i may act on a chat for the reason in c, beside what justified earlier ones; its
// time is now. ErrNotFound: there is no such instance, or it was revoked.
func (db *DB) Converse(ctx context.Context, c Conversation) error {
	c.LastAt = db.now()
	return db.change(ctx, nil, "conversation", func(t *tx) error {
		if _, err := t.liveInstance(c.Instance); err != nil {
			return err
		}
		return t.converse(c)
	})
}

// beside is c with what justified an earlier conversation about the same chat.
func (c Conversation) beside(old Conversation) Conversation {
	if c.By == "" {
		c.By = old.By
	}
	c.ByGrant = c.ByGrant || old.ByGrant
	c.Made = c.Made || old.Made
	return c
}

// converse notes that an event was delivered, beside what justified earlier ones: a guest's
// message through a grant does not take away what the owner's own message allows. A record that
// says the same and is younger than an hour is left alone: it would cost a page for every message.
func (t *tx) converse(c Conversation) error {
	k := conversationKey(c)
	old, ok, err := table.Load[Conversation](t.Tx, bucketConversations, k)
	if err != nil {
		return err
	}
	c = c.beside(old)
	if ok && c.LastAt.Sub(old.LastAt) < refreshAfter {
		if old.LastAt = c.LastAt; old == c {
			return nil
		}
	}
	return putIndexed(t, c)
}
