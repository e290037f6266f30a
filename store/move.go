package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/binding"
	"github.com/hermes-connector/hermes-connector/store/grant"
	"github.com/hermes-connector/hermes-connector/store/moved"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/store/undecided"
	bolt "go.etcd.io/bbolt"
)

// Move says that a chat's id changed from From to To for good.
type Move struct {
	Platform relay.PlatformID
	From, To relay.ChatID
}

// MoveChat rewrites grants, routes, conversations, free-response scopes and the direct-message chats of
// bindings from one chat id to another, in one transaction. Where the new id is granted already, that grant stays
// and the old one is dropped; so is a route that another tenant's route or grant there forbids. Undecided events go
// along; entries in the lanes are left as they are, so gateways go on using the old id: CurrentChat translates it.
func (db *DB) MoveChat(ctx context.Context, m Move) error {
	now := db.now()
	return db.change(ctx, nil, fmt.Sprintf("move chat on %s", m.Platform), func(t *tx) error { return t.move(m, now) })
}

func (t *tx) move(m Move, now time.Time) error {
	if m.From == m.To || m.From == "" || m.To == "" {
		return nil
	}
	before := t.Changes
	for _, step := range []func(Move) error{t.moveGrants, t.moveRoutes, t.moveConversations, t.moveBindings, t.moveScopes, t.moveUndecided} {
		if err := step(m); err != nil {
			return err
		}
	}
	if t.Changes == before { // nobody has anything to do with the old id
		return nil
	}
	return moved.Put(t.Writer, moved.Record{Platform: m.Platform, From: m.From, To: m.To, At: now})
}

func (t *tx) moveGrants(m Move) error {
	grants, err := grant.On(t.Tx, m.Platform, m.From)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if err := table.DeleteIndexed(t.Writer, g); err != nil {
			return err
		}
		g.Chat = m.To
		if table.Has(t.Tx, grant.Bucket, grant.Key(g.Platform, g.Scope, g.Chat)) {
			continue
		}
		if err := table.PutIndexed(t.Writer, g); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) moveConversations(m Move) error {
	all, err := table.Lookup[Conversation](t.Tx, bucketConversations,
		table.IndexUnder(bucketConversations, byParent, string(m.Platform), string(m.From)), "", 0)
	if err != nil {
		return err
	}
	for _, bot := range botsIn(t.Tx, m.Platform) {
		about, err := table.Lookup[Conversation](t.Tx, bucketConversations, append(bot, table.Prefix(m.From)...), "", 0)
		if err != nil {
			return err
		}
		all = append(all, about...)
	}
	for _, c := range all {
		if err := table.DeleteIndexed(t.Writer, c); err != nil {
			return err
		}
		if c.Parent == m.From {
			c.Parent = m.To
		}
		if c.Chat == m.From {
			c.Chat = m.To
		}
		old, ok, err := table.Load[Conversation](t.Tx, bucketConversations, conversationKey(c))
		if err != nil {
			return err
		}
		if ok && old.LastAt.After(c.LastAt) {
			c, old = old, c
		}
		if ok {
			c = c.beside(old)
		}
		if err := table.PutIndexed(t.Writer, c); err != nil {
			return err
		}
	}
	return nil
}

// botsIn are how the keys in the index begin of the conversations with each bot of p: a seek for each.
func botsIn(t *bolt.Tx, p relay.PlatformID) (out [][]byte) {
	pre := table.IndexUnder(bucketConversations, byChat, string(p))
	c := t.Bucket([]byte(bucketIndex)).Cursor()
	for k, _ := c.Seek(pre); bytes.HasPrefix(k, pre); {
		end := len(pre) + max(0, bytes.IndexByte(k[len(pre):], 0))
		out = append(out, bytes.Clone(k[:end+1]))
		k, _ = c.Seek(append(bytes.Clone(k[:end]), 1))
	}
	return out
}

func (t *tx) moveBindings(m Move) error {
	all, err := binding.List(t.Tx, BindingFilter{Platform: m.Platform, DMChat: m.From})
	if err != nil {
		return err
	}
	for _, b := range all {
		b.DMChat = m.To
		if err := table.PutIndexed(t.Writer, b); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) moveScopes(m Move) error {
	all, err := table.List[Instance](t.Tx, BucketInstances, nil)
	if err != nil {
		return err
	}
	for _, i := range all {
		r, ok := i.Relevance[m.Platform]
		at := slices.Index(r.FreeResponseScopes, m.From)
		if !ok || at < 0 {
			continue
		}
		if slices.Contains(r.FreeResponseScopes, m.To) {
			r.FreeResponseScopes = slices.Delete(r.FreeResponseScopes, at, at+1)
		} else {
			r.FreeResponseScopes[at] = m.To
		}
		i.Relevance[m.Platform] = r
		if err := t.Put(BucketInstances, table.Key(i.ID), i); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) moveUndecided(m Move) error { return undecided.Move(t.Writer, m.Platform, m.From, m.To) }
