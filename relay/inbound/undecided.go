package inbound

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	// MaxUndecided is how many events of one chat may wait for the network's answer. Further ones count as not visible.
	MaxUndecided = 1000
	// decidedTogether is how many verdicts share a commit.
	decidedTogether = 64
	// judgeRetry is the pause before the database is asked again.
	judgeRetry = time.Second
)

// Begin judges undecided events until ctx ends: those from before the last stop, and new ones. start starts a worker
// for each chat.
func (in *Inbound) Begin(ctx context.Context, start func(worker func())) error {
	in.workers.begin(func(c relay.Chat) { start(func() { in.judgeChat(ctx, c) }) })
	return in.Resume(ctx)
}

// End makes sure that no further worker starts.
func (in *Inbound) End() { in.workers.end() }

// Resume judges the undecided events from before the last stop again: their bot may be here now.
func (in *Inbound) Resume(ctx context.Context) error {
	all, err := in.db.Pending.List(ctx, store.PendingFilter{})
	if err != nil {
		return err
	}
	for _, u := range all {
		in.workers.call(u.Delivery.About().Chat())
	}
	return nil
}

// Undecided returns the chats with undecided events.
func (in *Inbound) Undecided() []relay.Chat { return in.workers.chats() }

// judgeChat is the worker of one chat: it decides events until none is left.
func (in *Inbound) judgeChat(ctx context.Context, c relay.Chat) {
	for {
		err := in.Judge(ctx, c)
		if err == nil || ctx.Err() != nil {
			return
		}
		pause := judgeRetry
		if muted, ok := errors.AsType[*platforms.MutedError](err); ok {
			pause = max(time.Until(muted.Until), pause)
		} else {
			in.log.Warn("undecided events not judged; trying again", "bot", c.Bot.String(), "chat", c.ID, "in", pause, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Judge decides the undecided events of one chat, in order, until none is left. The error says why an event cannot be
// decided now: a *platforms.MutedError, or the store's.
func (in *Inbound) Judge(ctx context.Context, c relay.Chat) error {
	for ctx.Err() == nil {
		left, err := in.judgeSome(ctx, in.bots.Bot(c.Bot), c)
		if err != nil || !left && in.workers.done(c) {
			return err
		}
	}
	return ctx.Err()
}

// judgeSome decides the oldest undecided events of a chat, at most decidedTogether, in one commit. At an event that
// cannot be decided now it stops, and returns the reason after it has stored the verdicts before. left is false if
// there are none, or their bot is no longer hosted here.
func (in *Inbound) judgeSome(ctx context.Context, p platforms.Bot, c relay.Chat) (left bool, err error) {
	waiting, err := in.db.Pending.List(ctx, store.PendingFilter{Chat: c, Limit: decidedTogether})
	if err != nil || len(waiting) == 0 || p == nil {
		return false, err
	}
	var verdicts []store.Verdict
	var judged []judgement
	var unclear error // why the event behind the judged ones cannot be decided now
	for _, u := range waiting {
		j, err := in.judge.pending(ctx, p, u)
		if err != nil {
			unclear = err
			break
		}
		in.interruptFor(j)
		v := store.Verdict{
			Number: u.Number, Instance: u.Instance, Delivery: u.Delivery, Frame: j.frame, Forward: j.forward, Whole: in.whole(j), Press: j.press,
			Why: string(j.verdicts[0].Reason),
		}
		if len(j.to) > 0 {
			v.To = &j.to[0]
		}
		in.cameBefore(ctx, &j, u)
		verdicts, judged = append(verdicts, v), append(judged, j)
	}
	if len(verdicts) == 0 {
		return true, unclear
	}
	out, err := in.db.Pending.Decide(ctx, c, verdicts)
	if err != nil {
		return true, err
	}
	in.noteLost(out)
	for n, j := range judged {
		if out.Items[n].Duplicate { // its chat has another id by now, and another worker decides it
			continue
		}
		if out.Items[n].Late {
			j.late()
		}
		in.tell(j, in.presses.decided(pressID{j.event.Bot, j.event.ID}), nil)
		in.announce(j, out.Items[n].Buffers)
	}
	return true, unclear
}

// cameBefore gives j the capability of u's event, if it is stored for u's instance. A capability that cannot be read
// must not keep the event from its verdict.
func (in *Inbound) cameBefore(ctx context.Context, j *judgement, u store.Pending) {
	stored, ok, err := in.db.Capabilities.In(ctx, u.Instance, j.event.Bot, j.event.ID)
	if err != nil || !ok {
		return
	}
	if c, ok := in.capabilities.Open(stored); ok {
		j.capability, j.holder = &c, u.Instance
	}
}

// pending decides an undecided event: it asks the gate again, with the facts of now. While only the network's answer is
// missing, it asks the network and then begins anew: meanwhile the chat may have got another holder.
func (g *judge) pending(ctx context.Context, p platforms.Bot, u store.Pending) (judgement, error) {
	j, until := judgement{event: u.Delivery.About()}, time.Now().Add(visibility.Within)
	for {
		v := verdict{Instance: u.Instance, Reason: nobody(j.event)}
		ev := u.Delivery.About()
		spokenTo := relay.InstanceID("")
		if ev.Traits.Named {
			spokenTo = u.Instance
		}
		cs, _, err := g.possibleRecipients(ctx, ev, spokenTo)
		if err != nil {
			return j, err
		}
		if i := slices.IndexFunc(cs, func(c recipient) bool { return c.instance.ID == u.Instance }); i >= 0 {
			c, known := cs[i], false
			v.Tenant = c.instance.Tenant
			j.event = c.completed(ev)
			if v.Reason, known, err = g.ask(ctx, j.event, c); err != nil {
				return j, err
			}
			if !known && time.Now().Before(until) {
				if err := g.askOwners(ctx, p, j.event, c, until); err != nil {
					return j, err
				}
				continue
			}
			if v.Reason == gate.Delivered {
				fits := false
				j.frame, fits = wire.Pack(j.event)
				if v.Reason, err = g.give(ctx, &j, c, fits); err != nil {
					return j, err
				}
				j.pack(u.Delivery)
			}
		}
		j.verdicts = []verdict{v}
		return j, nil
	}
}

// askOwners asks the network, until the given time, whether a person bound to the recipient sees the event's chat.
func (g *judge) askOwners(ctx context.Context, p platforms.Bot, ev relay.Event, c recipient, until time.Time) error {
	ctx = platforms.OnBehalf(ctx, c.instance.ID)
	for u, err := range g.facts.Watchers(ctx, c.instance.ID, ev.Chat()) {
		if err != nil {
			return err
		}
		if sees, err := g.facts.Visible.Ask(ctx, p, visibility.Of{Bot: ev.Bot, Place: ev.Source.Place(), User: u}, until); sees || err != nil {
			return err
		}
	}
	return nil
}
