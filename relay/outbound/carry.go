package outbound

import (
	"cmp"
	"context"
	"errors"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// carryOut does what was allowed.
func (who *Caller) carryOut(ctx context.Context, t target) (relay.Result, error) {
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
		// The platform carried the action out; what is stored must follow even if the gateway hung up.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
		defer cancel()
		move := store.Move{Platform: p.Bot().Platform, From: t.action.Target(), To: res.MovedTo}
		if err := who.out.db.MoveChat(ctx, move); err != nil {
			who.out.log.Warn("chat moved, but grants and conversations did not follow; the next event tries again", "err", err)
		}
	}
	res.MovedTo = cmp.Or(res.MovedTo, t.movedTo)
	return res, nil
}

// internal is what a gateway reads when the database could not be asked: not sent, worth trying again.
func internal(err error) error {
	if _, ok := errors.AsType[*relay.ActionError](err); ok {
		return err
	}
	return &relay.ActionError{Outcome: relay.NotSent, Public: "network: the connector's database is not available", Err: err}
}
