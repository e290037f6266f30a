package outbound

import (
	"cmp"
	"context"
	"slices"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// mayTouch reports whether the instance, which may act on a's chat by f, may do a to the message, the reaction or the
// thread that a names: it may change its own ones. left: the gateway used a former id of the chat, so that only
// messages that the store knows as its own count.
func (who *Caller) mayTouch(ctx context.Context, p platforms.Bot, f gate.ActFacts, a relay.Action, left bool) (bool, error) {
	switch a := a.(type) {
	case relay.Edit:
		m, err := who.messageFacts(ctx, p, f, a.Chat, a.Message, left)
		return gate.MayEdit(m), err
	case relay.Delete:
		m, err := who.messageFacts(ctx, p, f, a.Chat, a.Message, left)
		if err == nil && !left && askAuthor(m) {
			m.ByBot, m.ByPerson, err = who.author(ctx, p, a)
		}
		return gate.MayDelete(m), err
	case relay.React:
		if left {
			return true, nil // the reaction is refused later: the message that it names stayed in the former chat (unquoted)
		}
		m, err := who.reactionFacts(ctx, p, a)
		return gate.MayReact(m), err
	case relay.ThreadRename:
		return who.mayRename(ctx, p, f, a)
	}
	return true, nil
}

// author reports whether the bot or a person wrote the message that a names, as far as that can be known: people wrote
// the messages that were received here, and some networks answer the question.
func (who *Caller) author(ctx context.Context, p platforms.Bot, a relay.Delete) (bot, person bool, err error) {
	if person, err = who.out.db.Seen.Has(ctx, p.ID(), platforms.MessageEvent(p, a.Chat, a.Message)); person || err != nil {
		return false, person, err
	}
	if t, ok := p.(platforms.AuthorTeller); ok {
		if own, err := t.IsOwn(ctx, a.Chat, a.Message); err == nil {
			return own, !own, nil
		}
	}
	return false, false, nil
}

// askAuthor reports whether the message's author decides whether it may be deleted.
func askAuthor(m gate.MessageFacts) bool {
	byBot, byPerson := m, m
	byBot.ByBot, byPerson.ByPerson = true, true
	without := gate.MayDelete(m)
	return gate.MayDelete(byBot) != without || gate.MayDelete(byPerson) != without
}

// messageFacts gathers the stored facts about a message and, if there are none, whether others may act on its chat.
func (who *Caller) messageFacts(ctx context.Context, p platforms.Bot, f gate.ActFacts, chat relay.ChatID, id relay.MessageID, left bool) (gate.MessageFacts, error) {
	m := gate.MessageFacts{Direct: f.DirectWithBound, HoldsGrant: f.HoldsGrant}
	sender, known, err := who.out.db.Authors.By(ctx, relay.Chat{Bot: p.ID(), ID: chat}, id)
	if err != nil {
		return m, err
	}
	if known {
		m.SentBySelf, m.SentByOther = sender == who.instance, sender != who.instance
		return m, nil
	}
	alone, err := who.out.facts.Alone(ctx, who.instance, p, chat)
	m.Alone = alone && !left
	return m, err
}

// mayRename reports whether the instance may rename a thread: the holder of a chat may rename its threads, except those
// granted to others, and the instance that made the thread may, too.
func (who *Caller) mayRename(ctx context.Context, p platforms.Bot, f gate.ActFacts, a relay.ThreadRename) (bool, error) {
	if !threadsAreChats(p) {
		if f.HoldsGrant || f.DirectWithBound {
			return true, nil
		}
		c, known, err := who.out.facts.Conversation(ctx, who.instance, topicChat(p, a.Chat, a.Thread))
		return known && c.Made, err
	}
	thread := cmp.Or(relay.ChatID(a.Thread), a.Chat)
	if thread != a.Chat { // the platform checks that the thread belongs to the chat
		if place, known := facts.Locate(ctx, p, relay.Place{Platform: p.ID().Platform, Chat: thread}); known {
			g, ok, err := who.out.facts.Covering(ctx, place)
			if err != nil || ok && g.Chat == thread && g.Instance != who.instance {
				return false, err
			}
		}
	}
	if f.HoldsGrant || f.DirectWithBound {
		return true, nil
	}
	c, known, err := who.out.facts.Conversation(ctx, who.instance, relay.Chat{Bot: p.ID(), ID: thread})
	return known && c.Made, err
}

// noteDone remembers the result of an action that reached the network: the messages that belong to the instance from
// now on, and the thread that it made.
func (who *Caller) noteDone(ctx context.Context, p platforms.Bot, a relay.Action, chat relay.ChatID, res relay.Result, failed error) {
	where := relay.Chat{Bot: p.ID(), ID: chat}
	switch a := a.(type) {
	case relay.Send, relay.FollowUp, relay.Edit, relay.SendMedia, relay.Prompt:
		if failed != nil { // some parts of a long text may have been sent
			who.out.db.Authors.Note(who.instance, where, relay.Explain(failed).MessageIDs...)
			return
		}
		who.out.db.Authors.Note(who.instance, where, append(slices.Clone(res.MessageIDs), res.MessageID)...)
	case relay.ThreadCreate:
		if failed == nil && res.ThreadID != "" {
			who.noteThread(ctx, p, a, res)
		}
	}
}

// threadsAreChats reports whether a thread of p's network is a chat of its own. Elsewhere it is a topic, whose number
// may equal that of a stranger's chat: so a topic that was made is stored under the name from topicChat, which no chat
// has.
func threadsAreChats(p platforms.Bot) bool {
	_, ok := p.(platforms.Threader)
	return ok
}

// topicChat returns the name under which a topic of a chat is stored as a conversation.
func topicChat(p platforms.Bot, chat relay.ChatID, topic relay.ThreadID) relay.Chat {
	return relay.Chat{Bot: p.ID(), ID: chat + "/" + relay.ChatID(topic)}
}

// madeTopic reports whether some instance made the topic that a names.
func (who *Caller) madeTopic(ctx context.Context, p platforms.Bot, a relay.ThreadRename) (bool, error) {
	if threadsAreChats(p) {
		return false, nil // the network itself knows who made a thread
	}
	all, err := who.out.db.Conversations(ctx, store.ConversationFilter{Chat: topicChat(p, a.Chat, a.Thread)})
	return slices.ContainsFunc(all, func(c store.Conversation) bool { return c.Made }), err
}

// noteThread lets the instance act on the thread it made, for the reason it may act on the thread's chat.
func (who *Caller) noteThread(ctx context.Context, p platforms.Bot, a relay.ThreadCreate, res relay.Result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	parent, _, err := who.out.facts.Conversation(ctx, who.instance, relay.Chat{Bot: p.ID(), ID: a.Chat})
	if err == nil {
		at := relay.Place{Platform: p.ID().Platform, Scope: parent.Scope, Chat: a.Chat}
		if at.Scope == "" {
			at, _ = facts.Locate(ctx, p, at)
		}
		thread := relay.ChatID(res.ThreadID)
		if !threadsAreChats(p) {
			thread = topicChat(p, cmp.Or(res.MovedTo, a.Chat), res.ThreadID).ID
		}
		err = who.out.db.Converse(ctx, store.Conversation{
			Instance: who.instance, Bot: p.ID(), Chat: thread, Scope: at.Scope, Parent: a.Chat, Type: relay.ChatThread,
			By: parent.By, ByGrant: parent.ByGrant, Made: true,
		})
	}
	if err != nil {
		who.out.log.Warn("thread made, but not remembered; only the holder of its chat can write in it", "instance", who.instance, "err", err)
	}
}
