package outbound

import (
	"context"
	"sync"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
)

// maxMark bounds the ids of messages and emoji, in bytes: together they become a key of the database.
const maxMark = 128

// reacting holds the instances whose reactions are on their way, by relay.Reaction. If two set the same one at once,
// the network would keep the later one, and nobody could say whose it is.
type reacting struct{ sync.Map }

// begin notes that i's reaction is on its way, until done is called. other is true, and nothing is noted, if another
// instance's reaction is on its way already.
func (r *reacting) begin(which relay.Reaction, i relay.InstanceID) (other bool, done func()) {
	by, loaded := r.LoadOrStore(which, i)
	if loaded {
		return by != i, func() {}
	}
	return false, func() { r.Delete(which) }
}

// reactionFacts gathers the stored facts about a reaction and, if there are none, whether others may act on its chat.
func (who *Caller) reactionFacts(ctx context.Context, p platforms.Bot, a relay.React) (f gate.ReactionFacts, err error) {
	network, ok := p.(platforms.Reacter)
	if !ok {
		return f, nil // it is unsupported, and changes nothing
	}
	which := network.Reaction(a)
	f.Removes, f.Only = a.Remove, which.Name == ""
	by, known, err := who.out.db.Authors.ReactionBy(ctx, which)
	f.SetBySelf, f.SetByOther = known && by == who.instance, known && by != who.instance
	if err == nil && !known && a.Remove {
		f.Alone, err = who.out.facts.Alone(ctx, who.instance, p, a.Chat)
	}
	return f, err
}

// A bot that two gateways share has one reaction of a kind on a message, and on Telegram only one at all
// (Reacter.Reaction says which). The gateway that set it may change it, for as long as the store remembers. On Telegram
// the gateway keeps the place for a minute after it removed its reaction, because the reaction that closes a turn
// follows. To set a reaction on Discord that another gateway has set changes nothing, and succeeds.

// react sets or removes a reaction, which was allowed, unless another instance set it meanwhile. A reaction that
// another instance set before still belongs to that instance.
func (who *Caller) react(ctx context.Context, t target, a relay.React, declined error) (relay.Result, error) {
	network, ok := t.bot.(platforms.Reacter)
	if !ok {
		return relay.Result{}, relay.Unsupported(a.Op())
	}
	which := network.Reaction(a)
	if len(which.Message) > maxMark || len(which.Name) > maxMark {
		return relay.Result{}, relay.Invalid(a.Op(), "the message or the emoji is longer than 128 bytes")
	}
	other, done := who.out.reacting.begin(which, who.instance)
	defer done()
	if !other {
		by, known, err := who.out.db.Authors.ReactionBy(ctx, which)
		if err != nil {
			return relay.Result{}, internal(err)
		}
		other = known && by != who.instance
	}
	if other && !gate.MayReact(gate.ReactionFacts{SetByOther: true, Removes: a.Remove, Only: which.Name == ""}) {
		return relay.Result{}, declined
	}
	res, err := who.carryOut(ctx, t)
	if stands := err == nil || !a.Remove && relay.Explain(err).Outcome == relay.MaybeSent; stands && !other {
		who.out.db.Authors.NoteReaction(who.instance, which, a.Remove)
	}
	return res, err
}
