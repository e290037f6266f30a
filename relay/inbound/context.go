package inbound

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxContext is how many lines of context an event brings.
	maxContext = 30
	// maxContextBytes bounds the texts, names and ids of these lines together, in bytes.
	maxContextBytes = 16 << 10
	// contextWithin bounds the question about a chat's earlier messages.
	contextWithin = 10 * time.Second
)

// bringsContext reports whether an event brings the earlier messages of its chat, by the policy of an instance that
// holds the grant that covers the chat, or to which the author is linked. In a direct message, those can only be what
// programs told its author. Presses never bring context, and commands do not bring it in a direct message: gateways
// answer them without their agent.
func bringsContext(ev relay.Event, policy relay.ContextPolicy, grant, bound bool) bool {
	direct := ev.Source.ChatType == relay.ChatDM
	switch {
	case policy == relay.ContextOff, ev.Traits.Press, ev.Prompt != nil:
		return false
	case direct:
		return bound && ev.Type != relay.TypeCommand
	case !ev.Traits.Addressed:
		return false
	case policy == relay.ContextAll:
		return grant || bound
	default:
		return grant
	}
}

// BringContext puts the messages before ev into it, if the instance is to get them now. If they cannot be learned, the
// context says so: the event does not fail because of it.
func (in *Inbound) BringContext(ctx context.Context, i relay.InstanceID, ev *relay.Event) {
	if ev.Source.ChatType == relay.ChatDM {
		if who := (reader{i, ev.Bot, ev.Source.UserID}); in.Told.any(who) && in.wantsContext(ctx, i, *ev) {
			ev.Context = newest(in.Told.bring(who, ev.ID, time.Now()))
		}
		return
	}
	p, ok := in.bots.Bot(ev.Bot).(platforms.Historian)
	if !ok || !ev.Traits.Addressed || !in.wantsContext(ctx, i, *ev) {
		return
	}
	asking, cancel := context.WithTimeout(platforms.For(ctx, i), contextWithin)
	defer cancel()
	lines, whole, err := p.History(asking, *ev, maxContext)
	if err != nil && ctx.Err() == nil {
		in.log.Warn("context not read; the event goes without", "bot", ev.Bot.String(), "event", ev.ID, "err", err)
	}
	if err != nil {
		lines = nil
	}
	ev.Context, ev.ContextError = newest(besides(*ev, lines)), err != nil || !whole
}

// besides returns the lines that ev does not contain itself: ev may be joined of several messages, and the network
// returns those before the newest of them as lines.
func besides(ev relay.Event, lines []relay.ContextLine) []relay.ContextLine {
	return slices.DeleteFunc(lines, func(l relay.ContextLine) bool {
		return l.UserID == ev.Source.UserID && l.Text != ev.Text && strings.Contains("\n"+ev.Text+"\n", "\n"+l.Text+"\n")
	})
}

// wantsContext reports whether the instance is told the messages before ev.
func (in *Inbound) wantsContext(ctx context.Context, i relay.InstanceID, ev relay.Event) (wants bool) {
	src := ev.Source
	err := in.db.View(ctx, func(ctx context.Context) error {
		is, err := in.facts.Instances(ctx, i)
		if err != nil {
			return err
		}
		grant, granted, err := in.facts.Covering(ctx, src.Place())
		if err != nil {
			return err
		}
		bound, err := in.facts.Bound(ctx, i, src.Platform, src.UserID)
		wants = bringsContext(ev, is[0].Relevance[src.Platform].Context, granted && grant.Instance == i, bound)
		return err
	})
	return err == nil && wants
}

// newest returns the last lines, as many as a message brings.
func newest(lines []relay.ContextLine) []relay.ContextLine {
	return lines[broughtFrom(len(lines), func(n int) relay.ContextLine { return lines[n] }):]
}

// broughtFrom returns the index, among the given number of lines, of the first line that a message brings. A message
// brings the last lines: at most maxContext, and at most maxContextBytes.
func broughtFrom(lines int, line func(n int) relay.ContextLine) (first int) {
	bytes := maxContextBytes
	for first = lines; first > 0 && lines-first < maxContext; first-- {
		l := line(first - 1)
		if bytes -= len(l.Text) + len(l.UserName) + len(l.UserID); bytes < 0 {
			break
		}
	}
	return first
}
