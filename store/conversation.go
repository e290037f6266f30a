package store

import (
	"bytes"
	"cmp"
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/table"
	bolt "go.etcd.io/bbolt"
)

const bucketConversations = "conversations" // instance|chat|platform|bot -> Conversation

// Conversation says that an event of a chat was delivered to an instance, and why it was allowed.
// It lets the instance act on the chat as long as that reason holds.
type Conversation struct {
	Instance relay.InstanceID `json:"instance"`
	Bot      relay.Bot        `json:"bot"`
	Chat     relay.ChatID     `json:"chat"`
	Scope    relay.ScopeID    `json:"scope,omitempty"`
	Parent   relay.ChatID     `json:"parent,omitempty"`
	Type     relay.ChatType   `json:"type,omitempty"`
	// By is the bound user whose event justified it last; empty if only a grant ever did.
	By relay.UserID `json:"by,omitempty"`
	// ByGrant: the instance held the grant covering the chat.
	ByGrant bool `json:"byGrant,omitempty"`
	// Made: the instance opened the chat, as a thread or as a topic of its Parent; the Chat of a topic is
	// "parent/topic".
	Made bool `json:"made,omitempty"`
	// Profile is the gateway's profile that acted on the chat last, if the gateway named it; the chat's next events go
	// to it.
	Profile string    `json:"profile,omitempty"`
	LastAt  time.Time `json:"last"`
}

func conversationKey(c Conversation) []byte {
	return table.Key(c.Instance, string(c.Chat), string(c.Bot.Platform), string(c.Bot.ID))
}

// conversationOf is an instance's conversation in a chat.
type conversationOf struct {
	instance relay.InstanceID
	chat     relay.Chat
}

// conversation returns a list of at most one conversation.
func (rs *recents) conversation(t *bolt.Tx, of conversationOf) ([]Conversation, error) {
	return rs.conversations.get(t, of, func() ([]Conversation, error) {
		k := conversationKey(Conversation{Instance: of.instance, Bot: of.chat.Bot, Chat: of.chat.ID})
		return table.AtMostOne[Conversation](t, bucketConversations, k)
	})
}

// Index returns the conversation's bucket, its key there, and its keys in the index.
func (c Conversation) Index() (string, []byte, [][]byte) {
	platform, bot, chat := string(c.Bot.Platform), string(c.Bot.ID), string(c.Chat)
	also := [][]byte{table.IndexKey(bucketConversations, byChat, platform, bot, chat, string(c.Instance))}
	if c.Parent != "" {
		also = append(also, table.IndexKey(bucketConversations, byParent, platform, string(c.Parent), bot, chat, string(c.Instance)))
	}
	return bucketConversations, conversationKey(c), also
}

// ConversationFilter picks conversations: with both fields the conversation of the instance about the chat, with one
// field all of the instance or all about the chat, with none all.
type ConversationFilter struct {
	Instance relay.InstanceID
	Chat     relay.Chat
}

// Conversations lists the conversations that f picks, of an instance by chat and of a chat by instance.
func (db *DB) Conversations(ctx context.Context, f ConversationFilter) ([]Conversation, error) {
	return table.Get(ctx, db.records, "conversations", func(t *bolt.Tx) ([]Conversation, error) {
		switch {
		case f.Instance != "" && f.Chat != relay.Chat{}:
			return db.recents.conversation(t, conversationOf{f.Instance, f.Chat})
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

// Converse notes that i may act on a chat for the reason in c, beside earlier reasons; its time is now. ErrNotFound:
// the instance does not exist, or was revoked.
func (db *DB) Converse(ctx context.Context, c Conversation) error {
	c.LastAt = db.now()
	return db.change(ctx, nil, "conversation", func(t *tx) error {
		if _, err := t.liveInstance(c.Instance); err != nil {
			return err
		}
		return t.converse(c)
	})
}

// beside returns c with the reasons of an earlier conversation about the same chat.
func (c Conversation) beside(old Conversation) Conversation {
	c.By = cmp.Or(c.By, old.By)
	c.ByGrant = c.ByGrant || old.ByGrant
	c.Made = c.Made || old.Made
	c.Profile = cmp.Or(c.Profile, old.Profile)
	return c
}

// converse notes that an event was delivered, beside earlier reasons: a guest's message through a grant does not take
// away what the owner's own message allows. A record that says the same and is younger than an hour is left alone: a
// write would cost a page for every message.
func (t *tx) converse(c Conversation) error {
	old, ok, err := First(t.recents.conversation(t.Tx, conversationOf{c.Instance, relay.Chat{Bot: c.Bot, ID: c.Chat}}))
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

// KeepProfile notes which profile of a gateway of i acts on a chat, if i has a conversation there; otherwise it does
// nothing. It writes nothing if the profile is noted already.
func (db *DB) KeepProfile(ctx context.Context, i relay.InstanceID, c relay.Chat, profile string) error {
	k := conversationKey(Conversation{Instance: i, Bot: c.Bot, Chat: c.ID})
	at, known, err := table.Find[Conversation](ctx, db.records, "profile", bucketConversations, k)
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

// moveConversations is moveChat for conversations: of two conversations about one chat the newer stays, with the
// reasons of the other.
func moveConversations(w *table.Writer, m Move) error {
	all, err := table.Lookup[Conversation](w.Tx, bucketConversations,
		table.IndexUnder(bucketConversations, byParent, string(m.Platform), string(m.From)), "", 0)
	if err != nil {
		return err
	}
	for _, bot := range botsIn(w.Tx, m.Platform) {
		about, err := table.Lookup[Conversation](w.Tx, bucketConversations, append(bot, table.Prefix(m.From)...), "", 0)
		if err != nil {
			return err
		}
		all = append(all, about...)
	}
	for _, c := range all {
		if err := table.DeleteIndexed(w, c); err != nil {
			return err
		}
		if c.Parent == m.From {
			c.Parent = m.To
		}
		if c.Chat == m.From {
			c.Chat = m.To
		}
		old, ok, err := table.Load[Conversation](w.Tx, bucketConversations, conversationKey(c))
		if err != nil {
			return err
		}
		if ok && old.LastAt.After(c.LastAt) {
			c, old = old, c
		}
		if ok {
			c = c.beside(old)
		}
		if err := table.PutIndexed(w, c); err != nil {
			return err
		}
	}
	return nil
}

// botsIn returns for each bot of p the beginning of the index keys of its conversations. It finds each next bot by one
// seek, without reading the keys between.
func botsIn(t *bolt.Tx, p relay.PlatformID) (out [][]byte) {
	pre := table.IndexUnder(bucketConversations, byChat, string(p))
	c := t.Bucket([]byte(table.Index)).Cursor()
	for k, _ := c.Seek(pre); bytes.HasPrefix(k, pre); {
		end := len(pre) + max(0, bytes.IndexByte(k[len(pre):], 0))
		out = append(out, bytes.Clone(k[:end+1]))
		k, _ = c.Seek(append(bytes.Clone(k[:end]), 1))
	}
	return out
}
