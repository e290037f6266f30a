package outbound

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
)

// threadWithin bounds the question to a network in which chat a thread is.
const threadWithin = 5 * time.Second

// target is the bot of a request, and the action on the chat or thread that is meant.
type target struct {
	bot     platforms.Bot
	action  relay.Action
	movedTo relay.ChatID // the id the chat has now, where the frame gave a former one; else empty
}

// allowed finds the target of r and asks the gate. A chat may have got another id in the middle of a conversation, like
// a Telegram group that becomes a supergroup. A request that names the former id is meant for the present chat and
// judged by that alone, and its result names the present id.
func (who *Caller) allowed(ctx context.Context, r relay.Request) (t target, err error) {
	declined := relay.Declined(who.speaksOf(r))
	if who.attachment.Revoked() {
		return t, declined
	}
	if r.Action, err = who.real(ctx, r.Action); err != nil {
		return t, err
	}
	t.action = r.Action
	t.bot, _, err = who.route(r, func(p platforms.Bot) (bool, error) {
		f, err := who.out.facts.Act(ctx, who.instance, p, r.Action.Target())
		return gate.MayAct(f), err
	})
	if err != nil {
		return t, internal(err)
	}
	now, err := who.out.facts.CurrentChat(ctx, t.bot.ID().Platform, r.Action.Target())
	if err != nil {
		return t, internal(err)
	}
	if now != r.Action.Target() {
		t.movedTo, t.action = now, r.Action.Aimed(now)
	}
	f, ok, err := who.aim(ctx, &t)
	if ok && err == nil {
		ok, err = who.mayTouch(ctx, t.bot, f, t.action, t.movedTo != "")
		if !ok && err == nil && t.movedTo != "" {
			return t, who.leftBehind(ctx, t, r.Action, declined)
		}
	}
	switch {
	case err != nil:
		return t, internal(err)
	case !ok && f.Unsaid && who.lasts(r.Action): // nobody knows yet who sees the chat: a final answer is tried again
		return t, relay.Later("whether the person can see the chat is not known yet", nil)
	case !ok:
		return t, declined
	case t.movedTo != "":
		t.action, err = unquoted(t.action)
	}
	return t, err
}

// aim points t at the thread that its action's metadata names, if threads are chats of their own. f holds the facts
// that let the instance act there. ok is false if it may not, and if the thread is unknown or lies in another chat; a
// thread that not everybody in its chat sees needs a reason of its own. The platform is asked only for an instance that
// may act on the chat or the thread.
func (who *Caller) aim(ctx context.Context, t *target) (f gate.ActFacts, ok bool, err error) {
	chat, thread := t.action.Target(), t.action.Within()
	if f, err = who.out.facts.Act(ctx, who.instance, t.bot, chat); err != nil {
		return f, false, err
	}
	network, threads := t.bot.(platforms.Threader)
	if !threads || thread == "" || relay.ChatID(thread) == chat {
		return f, gate.MayAct(f), nil
	}
	own, err := who.out.facts.Act(ctx, who.instance, t.bot, relay.ChatID(thread))
	if err != nil || !gate.MayAct(f) && !gate.MayAct(own) {
		return f, false, err
	}
	asking, cancel := context.WithTimeout(ctx, threadWithin)
	defer cancel()
	place, open, err := network.Thread(asking, thread)
	if err != nil || place.Parent != chat || !open && !gate.MayAct(own) {
		return f, false, nil
	}
	t.action = t.action.Aimed(relay.ChatID(thread))
	if gate.MayAct(own) {
		f = own
	}
	return f, true, nil
}

// errNoMessage returns the answer to an action on a message that stayed in the former chat, or on a waiting answer
// about which nothing is known any more, in Telegram's words.
func errNoMessage(op relay.Op) *relay.ActionError {
	return relay.Refused("Bad Request: message to "+string(op)+" not found", nil)
}

// leftBehind returns why an instance may not do a in a former chat: its own message stayed behind, or declined.
func (who *Caller) leftBehind(ctx context.Context, t target, a relay.Action, declined *relay.ActionError) error {
	switch a.(type) {
	case relay.Edit, relay.Delete:
	default:
		return declined
	}
	sender, known, err := who.out.db.Authors.By(ctx, relay.Chat{Bot: t.bot.ID(), ID: a.Target()}, named(a))
	switch {
	case err != nil:
		return internal(err)
	case known && sender == who.instance:
		return errNoMessage(a.Op())
	}
	return declined
}

// unquoted returns a, which a gateway aimed at a former id, without the messages that it names: those stayed behind,
// and their numbers mean other messages in the new chat. So replies are sent without their quote, and reactions are
// refused.
func unquoted(a relay.Action) (relay.Action, error) {
	switch a.(type) {
	case relay.Send, relay.SendMedia, relay.Prompt:
		return referring(a, func(relay.MessageID) relay.MessageID { return "" }), nil
	case relay.React:
		return a, errNoMessage(a.Op())
	}
	return a, nil
}
