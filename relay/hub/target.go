package hub

import (
	"context"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
)

// target is what a request is about, whatever its frame calls it: the bot, and the action on the chat or
// thread that is meant.
type target struct {
	bot     platforms.Platform
	action  relay.Action
	movedTo relay.ChatID // the id the chat has now, where the frame gave a former one; else empty
}

// allowed finds what r is about and asks the gate.
func (s *seat) allowed(ctx context.Context, r relay.Request) (t target, err error) {
	h, i, declined := s.hub, s.peer.Instance, relay.Declined(s.speaksOf(r))
	if s.revoked.Load() {
		return t, declined
	}
	t.action = r.Action
	t.bot, _, err = s.route(r, func(p platforms.Platform) (bool, error) {
		f, err := h.actFacts(ctx, i, p, r.Action.Target())
		return gate.MayAct(f), err
	})
	if err != nil {
		return t, internal(err)
	}
	now, err := h.facts.CurrentChat(ctx, t.bot.Bot().Platform, r.Action.Target())
	if err != nil {
		return t, internal(err)
	}
	if now != r.Action.Target() {
		t.movedTo, t.action = now, r.Action.Aimed(now)
	}
	f, ok, err := h.aim(ctx, i, &t)
	if ok && err == nil {
		ok, err = h.mayTouch(ctx, i, t.bot, f, t.action, t.movedTo != "")
		if !ok && err == nil && t.movedTo != "" {
			return t, h.leftBehind(ctx, i, t, r.Action, declined)
		}
	}
	switch {
	case err != nil:
		return t, internal(err)
	case !ok:
		return t, declined
	case t.movedTo != "":
		t.action, err = unquoted(t.action)
	}
	return t, err
}

// aim points t at the thread its action's metadata names, where threads are chats of their own: then it
// is an action on that thread. f is what lets the instance act there. ok is false when it may not, and
// when the thread does not lie in the chat the frame names or is not known: one of the chat's that not
// everybody there sees needs a reason of its own. The platform is asked only for a chat or a thread the
// instance may act on.
func (h *Hub) aim(ctx context.Context, i relay.InstanceID, t *target) (f gate.ActFacts, ok bool, err error) {
	chat, thread := t.action.Target(), t.action.Within()
	if f, err = h.actFacts(ctx, i, t.bot, chat); err != nil {
		return f, false, err
	}
	network, threads := t.bot.(platforms.Threader)
	if !threads || thread == "" || relay.ChatID(thread) == chat {
		return f, gate.MayAct(f), nil
	}
	own, err := h.actFacts(ctx, i, t.bot, relay.ChatID(thread))
	if err != nil || !gate.MayAct(f) && !gate.MayAct(own) {
		return f, false, err
	}
	asking, cancel := context.WithTimeout(ctx, locateWithin)
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
