package outbound

import (
	"context"
	"errors"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
)

// errNoCapability is the answer to a follow-up, whatever is in its way.
var errNoCapability = &relay.ActionError{Outcome: relay.NotSent, Public: "follow_up declined: no capability for this session"}

// followUp answers through the capability bound to the session key a gateway names, if it may still act on the
// capability's chat. Until it is clear that it may, the gateway reads the same words whatever is in the way, and the
// same questions are put to the database: without a capability, about a chat that is nobody's.
func (who *Caller) followUp(ctx context.Context, a relay.FollowUp) (relay.Result, error) {
	c, ok := who.out.Capabilities.bound(ctx, who.tenant, who.instance, a.Session, a.Kind)
	p := who.out.bots.Bot(c.Bot)
	r, responds := p.(platforms.Responder)
	if !responds {
		p, c.Chat, ok = nowhere{}, nobodysChat, false
	}
	f, err := who.out.facts.Act(ctx, who.instance, p, c.Chat)
	if err != nil || !ok || who.attachment.Revoked() || !gate.MayAct(f) {
		return relay.Result{}, errNoCapability
	}
	send := relay.Send{Chat: c.Chat, Content: a.Content, Meta: a.Meta}
	if _, ok := p.(platforms.Threader); ok && send.Meta.ThreadID != "" && relay.ChatID(send.Meta.ThreadID) != c.Chat {
		// No capability reaches another chat.
		t, err := who.allowed(ctx, relay.Request{Platform: c.Bot.Platform, Bot: c.Bot.ID, Action: send})
		if err != nil {
			return relay.Result{}, errNoCapability
		}
		return who.carryOut(ctx, t)
	}
	res, err := who.out.Capabilities.wield(ctx, r, c, sendThrough(send), false)
	who.noteDone(ctx, p, a, c.Chat, res, err)
	if errors.Is(err, platforms.ErrCapabilityGone) {
		return relay.Result{}, errNoCapability
	}
	return res, err
}

// nobodysChat is the chat of a follow-up without a capability.
const nobodysChat relay.ChatID = "0"

// nowhere is the bot of a follow-up without a capability: no network is asked about it.
type nowhere struct{ platforms.Platform }

func (nowhere) Bot() relay.Bot { return relay.Bot{} }
