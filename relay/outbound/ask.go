package outbound

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/prompt"
)

// ask stores a prompt and then posts it: no button that somebody can press is unknown here. What certainly was not
// posted is withdrawn.
func (who *Caller) ask(ctx context.Context, t target, a relay.Prompt) (relay.Result, error) {
	if _, ok := t.bot.(platforms.Prompter); !ok {
		return relay.Result{}, relay.Unsupported(relay.OpPrompt)
	}
	if err := a.Misfit(maxOptions); err != nil {
		return relay.Result{}, err
	}
	r := promptRecord(who.instance, t.bot.Bot(), a, time.Now())
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

// asked stores what became of r, which was to be posted. That a prompt is not withdrawn, or its message not known, is
// no reason to tell its gateway anything else.
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
