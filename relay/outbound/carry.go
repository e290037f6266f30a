package outbound

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/prompt"
)

// errNotOurs: another node may act for these bots by now.
var errNotOurs = relay.Later("another node of the connector has taken over", nil)

// carryOut carries out an allowed action: through a capability of its chat if the instance has one, otherwise by an
// ordinary call of the platform. It stores what the instance owns because of that, and that the chat has got another
// id.
func (who *Caller) carryOut(ctx context.Context, t target) (relay.Result, error) {
	if !who.out.leads() {
		return relay.Result{}, errNotOurs
	}
	p := t.bot
	if res, done, err := who.out.Capabilities.Respond(ctx, who.instance, p, t.action); done || err != nil {
		who.noteDone(ctx, p, t.action, t.action.Target(), res, err)
		return res, err
	}
	if a, ok := t.action.(relay.ThreadRename); ok && a.OnlyIfConnectorCreated {
		made, err := who.madeTopic(ctx, p, a)
		if err != nil {
			return relay.Result{}, internal(err)
		}
		a.Made = made
		t.action = a
	}
	res, err := platforms.Do(ctx, p, t.action)
	who.noteDone(ctx, p, t.action, cmp.Or(res.MovedTo, t.action.Target()), res, err)
	if err != nil {
		return relay.Result{}, err
	}
	if res.MovedTo != "" {
		// The platform carried the action out, so the records must be stored even if the gateway hung up.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
		defer cancel()
		move := store.Move{Platform: p.ID().Platform, From: t.action.Target(), To: res.MovedTo}
		if err := who.out.db.MoveChat(ctx, move); err != nil {
			who.out.log.Warn("chat moved, but grants and conversations did not follow; the next event tries again", "err", err)
		}
	}
	res.MovedTo = cmp.Or(res.MovedTo, t.movedTo)
	return res, nil
}

// ask stores a prompt and then posts it: so every button that somebody can press is known here. If it certainly was not
// posted, it is withdrawn.
func (who *Caller) ask(ctx context.Context, t target, a relay.Prompt) (relay.Result, error) {
	if _, ok := t.bot.(platforms.Prompter); !ok {
		return relay.Result{}, relay.Unsupported(relay.OpPrompt)
	}
	if err := a.Misfit(maxOptions); err != nil {
		return relay.Result{}, err
	}
	if a.PromptID == relay.OwnPrompt {
		return relay.Result{}, relay.Invalid(relay.OpPrompt, "its prompt_id is in use")
	}
	r := promptRecord(who.instance, t.bot.ID(), a, time.Now())
	former, err := who.out.db.Prompts.Add(ctx, r)
	switch {
	case errors.Is(err, prompt.ErrHeld):
		return relay.Result{}, relay.Invalid(relay.OpPrompt, "its prompt_id is in use")
	case err != nil:
		return relay.Result{}, internal(err)
	}
	res, err := who.carryOut(ctx, t)
	who.asked(ctx, r, former, res, err)
	return res, err
}

// asked stores the outcome of r, which was to be posted. A failure to withdraw the prompt, or to store its
// message, does not change the answer that the gateway gets.
func (who *Caller) asked(ctx context.Context, r prompt.Record, former *prompt.Record, res relay.Result, failed error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	ps, err := who.out.db.Prompts, error(nil)
	if ae := relay.Explain(failed); ae == nil {
		err = ps.Posted(ctx, r, cmp.Or(res.MovedTo, r.Chat), res.MessageID)
	} else if ae.Outcome == relay.NotSent && len(ae.MessageIDs) == 0 {
		err = ps.Withdraw(ctx, r, former)
	}
	if err != nil {
		who.out.log.Warn("what became of a prompt is not stored", "instance", r.Instance, "err", err)
	}
}

// errNoCapability is the answer to every follow-up that is declined, whatever the reason.
var errNoCapability = relay.Refused("follow_up declined: no capability for this session", nil)

// followUp answers through the capability bound to the session key that a gateway names, if the gateway may still act
// on the capability's chat. Until that is clear, every refusal has the same words, and the database is asked the same
// questions: without a capability, about a chat that is nobody's.
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
		// The thread is a chat of its own, which no capability reaches: the answer goes there as an ordinary message.
		t, err := who.allowed(ctx, relay.Request{Platform: c.Bot.Platform, Bot: c.Bot.ID, Action: send})
		if err != nil {
			return relay.Result{}, errNoCapability
		}
		res, err := who.carryOut(ctx, t)
		who.recall(p, t.action.Target(), a, res, err)
		return res, err
	}
	res, err := who.out.Capabilities.wield(ctx, r, c, sendThrough(send), false)
	who.noteDone(ctx, p, a, c.Chat, res, err)
	who.recall(p, c.Chat, a, res, err)
	if errors.Is(err, platforms.ErrCapabilityGone) {
		return relay.Result{}, errNoCapability
	}
	return res, err
}

// nobodysChat is the chat of a follow-up without a capability.
const nobodysChat relay.ChatID = "0"

// nowhere is the bot of a follow-up without a capability: no network is asked about it.
type nowhere struct{ platforms.Bot }

func (nowhere) ID() relay.Bot { return relay.Bot{} }
