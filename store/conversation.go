package store

import (
	"cmp"
	"context"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

// ConversationFilter picks conversations: the one of an instance about a chat, all of an instance, all about a
// chat, or with neither all.
type ConversationFilter struct {
	Instance relay.InstanceID
	Chat     relay.Chat
}

// Conversations lists the conversations that f picks, of an instance by chat and of a chat by instance.
func (db *DB) Conversations(ctx context.Context, f ConversationFilter) ([]Conversation, error) {
	return get(ctx, db, "conversations", func(t *bolt.Tx) ([]Conversation, error) {
		switch {
		case f.Instance != "" && f.Chat != relay.Chat{}:
			k := conversationKey(Conversation{Instance: f.Instance, Bot: f.Chat.Bot, Chat: f.Chat.ID})
			return table.AtMostOne[Conversation](t, bucketConversations, k)
		case f.Instance != "":
			return table.List[Conversation](t, bucketConversations, table.Prefix(f.Instance))
		case f.Chat != relay.Chat{}:
			bot := f.Chat.Bot
			pre := table.IndexUnder(bucketConversations, byChat, string(bot.Platform), string(bot.ID), string(f.Chat.ID))
			return table.Lookup[Conversation](t, bucketConversations, pre, "", 0)
		}
		return table.List[Conversation](t, bucketConversations, nil)
	})
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
	c.By = cmp.Or(c.By, old.By)
	c.ByGrant = c.ByGrant || old.ByGrant
	c.Made = c.Made || old.Made
	c.Profile = cmp.Or(c.Profile, old.Profile)
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
	return table.PutIndexed(t.Writer, c)
}

// KeepProfile notes which profile of a gateway of i acts on a chat that i converses in; elsewhere it is not kept.
// One that is known writes nothing.
func (db *DB) KeepProfile(ctx context.Context, i relay.InstanceID, c relay.Chat, profile string) error {
	k := conversationKey(Conversation{Instance: i, Bot: c.Bot, Chat: c.ID})
	at, known, err := First(db.Conversations(ctx, ConversationFilter{Instance: i, Chat: c}))
	if err != nil || !known || at.Profile == profile {
		return err
	}
	return db.change(ctx, nil, "profile", func(t *tx) error {
		now, known, err := table.Load[Conversation](t.Tx, bucketConversations, k)
		if err != nil || !known {
			return err
		}
		inst, err := t.liveInstance(i)
		if err != nil {
			return err
		}
		if now.Profile = profile; !inst.Profiles {
			inst.Profiles = true
			if err := t.PutChanged(BucketInstances, table.Key(i), inst); err != nil {
				return err
			}
		}
		return table.PutIndexed(t.Writer, now)
	})
}
