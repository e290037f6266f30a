package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// BindingFilter picks the bindings that have everything it names.
type BindingFilter struct {
	Platform relay.PlatformID
	User     relay.UserID
	Instance relay.InstanceID
	DMChat   relay.ChatID
	Limit    int // 0 means no limit
}

func (f BindingFilter) picks(b Binding) bool {
	return (f.Platform == "" || b.Platform == f.Platform) && (f.User == "" || b.User == f.User) &&
		(f.Instance == "" || b.Instance == f.Instance) && (f.DMChat == "" || b.DMChat == f.DMChat)
}

// GrantFilter picks the grants that have everything it names. Chat, with Platform: those that may cover
// it, which name it or are of a whole scope.
type GrantFilter struct {
	Instance relay.InstanceID
	Platform relay.PlatformID
	Chat     relay.ChatID
	Limit    int // 0 means no limit
}

func (f GrantFilter) picks(g Grant) bool {
	return (f.Platform == "" || g.Platform == f.Platform) && (f.Instance == "" || g.Instance == f.Instance) &&
		(f.Chat == "" || g.Chat == f.Chat || g.Chat == "")
}

// ConversationFilter picks the conversations about a chat.
type ConversationFilter struct{ Chat relay.Chat }

// Bindings lists bindings: of a person on a platform the first made first, of an instance by person.
func (db *DB) Bindings(ctx context.Context, f BindingFilter) (out []Binding, err error) {
	err = db.w.read(ctx, func(t *bolt.Tx) error {
		out, err = f.find(t)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("bindings: %w", err)
	}
	if f.Limit == 0 {
		byBoundAt(out)
	}
	return out, nil
}

func (f BindingFilter) find(t *bolt.Tx) (out []Binding, err error) {
	switch {
	case f.User != "" && f.Instance != "":
		b, ok, err := load[Binding](t, bucketBindings, bindingKey(f.Platform, f.User, f.Instance))
		if ok {
			out = append(out, b)
		}
		return out, err
	case f.User != "":
		return list[Binding](t, bucketBindings, prefix(f.Platform, string(f.User)))
	case f.Instance == "":
		all, err := list[Binding](t, bucketBindings, prefix(f.Platform))
		return slices.DeleteFunc(all, func(b Binding) bool { return !f.picks(b) }), err
	}
	pre := prefix(f.Instance)
	if f.Platform != "" {
		pre = prefix(f.Instance, string(f.Platform))
	}
	for k, v := range under(t, bucketBindingsTo, pre) {
		b, err := pointed(t, k, v)
		if err != nil {
			return nil, err
		}
		if f.picks(b) {
			out = append(out, b)
		}
		if f.Limit > 0 && len(out) == f.Limit {
			break
		}
	}
	return out, nil
}

// GrantsBy lists grants, by platform, scope and chat.
func (db *DB) GrantsBy(ctx context.Context, f GrantFilter) ([]Grant, error) {
	out, err := db.grants(ctx, f.picks)
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[:f.Limit]
	}
	return out, err
}

// Conversations lists the conversations that instances have about the chat, by instance.
func (db *DB) Conversations(ctx context.Context, f ConversationFilter) (out []Conversation, err error) {
	err = db.w.read(ctx, func(t *bolt.Tx) error {
		for _, i := range keysUnder(t, bucketInstances, nil) {
			inst, ok, err := load[Instance](t, bucketInstances, i)
			if err != nil || !ok {
				return err
			}
			c, ok, err := load[Conversation](t, bucketConversations, conversationKey(Conversation{Instance: inst.ID, Bot: f.Chat.Bot, Chat: f.Chat.ID}))
			if err != nil {
				return err
			}
			if ok {
				out = append(out, c)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("conversations: %w", err)
	}
	return out, nil
}
