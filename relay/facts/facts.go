// Package facts gathers the facts that decide who gets an event and who may act on a chat: from the database and, where
// the database does not know, from the networks. The gate decides by these facts. A fact that cannot be learned counts
// as no.
package facts

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/store"
)

// Stored reads the stored facts that decide who gets an event and who may act on a chat. Each method reads a few
// records by key or index, however many others there are. *store.DB implements it.
type Stored interface {
	Instances(ctx context.Context, ids ...relay.InstanceID) ([]store.Instance, error)
	Bindings(ctx context.Context, f store.BindingFilter) ([]store.Binding, error)
	Grants(ctx context.Context, f store.GrantFilter) ([]store.Grant, error)
	Conversations(ctx context.Context, f store.ConversationFilter) ([]store.Conversation, error)
	CurrentChat(ctx context.Context, p relay.PlatformID, c relay.ChatID) (relay.ChatID, error)
}

var _ Stored = (*store.DB)(nil)

// Facts answers the gate's questions. Its methods may be called from any goroutine.
type Facts struct {
	Stored
	Visible visibility.Cache
}

// Conversation returns the record about the instance and the chat; false if no event of the chat was delivered to it.
func (fs *Facts) Conversation(ctx context.Context, i relay.InstanceID, c relay.Chat) (store.Conversation, bool, error) {
	return store.First(fs.Conversations(ctx, store.ConversationFilter{Instance: i, Chat: c}))
}

// Covering returns the grant that covers the place; false if nobody holds it.
func (fs *Facts) Covering(ctx context.Context, place relay.Place) (store.Grant, bool, error) {
	return store.First(fs.Grants(ctx, store.GrantFilter{Covering: &place}))
}

// SomeWatchers is how many of an instance's linked people are read at once.
const SomeWatchers = 64

// Watchers returns the people linked to the instance; one of them must see c before a stranger's event there reaches
// it. The person heard there last comes first, and then all others, read a few at a time.
func (fs *Facts) Watchers(ctx context.Context, i relay.InstanceID, c relay.Chat) iter.Seq2[relay.UserID, error] {
	return func(yield func(relay.UserID, error) bool) {
		talk, known, err := fs.Conversation(ctx, i, c)
		heard := false
		if err == nil && known {
			heard, err = fs.Bound(ctx, i, c.Bot.Platform, talk.By)
		}
		if (err != nil || heard) && !yield(talk.By, err) || err != nil {
			return
		}
		for f := (store.BindingFilter{Instance: i, Platform: c.Bot.Platform, Limit: SomeWatchers}); ; {
			some, err := fs.Bindings(ctx, f)
			if err != nil {
				yield("", err)
				return
			}
			for _, b := range some {
				if (!heard || b.User != talk.By) && !yield(b.User, nil) {
					return
				}
			}
			if len(some) < SomeWatchers {
				return
			}
			f.After = some[len(some)-1].User
		}
	}
}

// Bound reports whether the person's messages go to the instance.
func (fs *Facts) Bound(ctx context.Context, i relay.InstanceID, p relay.PlatformID, u relay.UserID) (bool, error) {
	if u == "" {
		return false, nil
	}
	bs, err := fs.Bindings(ctx, store.BindingFilter{Platform: p, User: u, Instance: i})
	return len(bs) > 0, err
}

// DirectChat returns the chat in which p reaches the user, who has the bindings bound: the chat of the direct message in
// which they linked themselves or, on a network that names a direct chat by its user, the chat with the user's id. It
// returns "" if neither is known.
func DirectChat(p platforms.Bot, bound []store.Binding, user relay.UserID) (chat relay.ChatID) {
	for _, b := range bound {
		chat = cmp.Or(chat, b.DMChat)
	}
	if d, ok := p.(platforms.DirectChats); ok && chat == "" {
		if theirs, ok := d.DirectUser(relay.ChatID(user)); ok && theirs == user {
			chat = relay.ChatID(user)
		}
	}
	return chat
}

// direct returns the bindings of the people whose direct messages with p the chat is: those to the instance, or all of
// them if i is empty.
func (fs *Facts) direct(ctx context.Context, i relay.InstanceID, p platforms.Bot, chat relay.ChatID) ([]store.Binding, error) {
	platform := p.ID().Platform
	out, err := fs.Bindings(ctx, store.BindingFilter{Instance: i, Platform: platform, DMChat: chat})
	for n := len(out) - 1; n >= 0 && err == nil; n-- {
		var shared bool
		if shared, err = platforms.Shared(ctx, p, chat, out[n].User); shared {
			out = slices.Delete(out, n, n+1)
		}
	}
	d, tells := p.(platforms.DirectChats)
	if err != nil || !tells {
		return out, err
	}
	user, direct := d.DirectUser(chat)
	if !direct || user == "" {
		return out, nil
	}
	by, err := fs.Bindings(ctx, store.BindingFilter{Instance: i, Platform: platform, User: user})
	return append(out, by...), err
}
