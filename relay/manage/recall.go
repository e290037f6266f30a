package manage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
	dbhistory "github.com/hermes-connector/hermes-connector/store/history"
)

// about is the subject of a verdict.
type about struct {
	bot      relay.Bot
	event    relay.EventID
	instance relay.InstanceID
}

func aboutOf(d gate.Decision) about { return about{d.Bot(), d.Event, d.Instance} }

// recall lists the verdicts that the server remembers, and those from the history about other messages that e asks for,
// the oldest first. Events that were not stored are only in the server's memory; answers are only in the history.
func (l *lookout) recall(ctx context.Context, e Explain) ([]gate.Decision, error) {
	remembered := l.history.live.Decisions()
	for _, d := range remembered {
		if d.Person != "" {
			l.heard[store.Person{Platform: d.Platform, User: d.User}] = store.Names{Told: d.Person, Handle: d.Handle}
		}
	}
	stored, err := l.stored(ctx, e)
	if err != nil {
		return nil, err
	}
	known := make(map[about]int)
	for n, d := range stored {
		known[aboutOf(d)] = n
	}
	both := make(map[about]bool)
	for n := range remembered {
		d := &remembered[n]
		at, ok := known[aboutOf(*d)]
		if !ok {
			continue
		}
		both[aboutOf(*d)] = true
		if then := stored[at]; d.Reason == then.Reason {
			d.Answers, d.GivenUp = then.Answers, then.GivenUp
		}
	}
	for _, d := range stored {
		if !both[aboutOf(d)] {
			remembered = append(remembered, d)
		}
	}
	sortByTime(remembered)
	return remembered, nil
}

// sortByTime sorts verdicts by their time, the oldest first; verdicts of the same moment keep their order.
func sortByTime(all []gate.Decision) {
	slices.SortStableFunc(all, func(a, b gate.Decision) int { return a.At.Compare(b.At) })
}

// stored returns the verdicts of the history for which e asks.
func (l *lookout) stored(ctx context.Context, e Explain) (out []gate.Decision, err error) {
	q := dbhistory.Query{Event: e.Event, Last: e.Last}
	if !e.Since.IsZero() { // the history may have a slightly earlier time for a message than the server's memory
		q.Since = e.Since.Add(-time.Minute)
	}
	db := l.history.db
	err = db.View(ctx, func(ctx context.Context) error {
		var failed error
		if e.Gateway != "" || e.Person != "" {
			ask := Explain{Gateway: e.Gateway, Person: e.Person}
			q.Who = func(w dbhistory.Who) bool {
				d := gate.Decision{Platform: w.Platform, User: w.User, Instance: w.Instance}
				failed = errors.Join(failed, l.name(ctx, &d))
				return ask.wanted(d)
			}
		}
		all, err := db.History.List(ctx, q)
		for _, m := range all {
			out = append(out, decisionOf(m))
		}
		return errors.Join(err, failed)
	})
	return out, err
}

// decisionOf turns a message of the history into a decision, in the form that the server remembers.
func decisionOf(m dbhistory.Message) gate.Decision {
	d := gate.Decision{
		At: m.At, Platform: m.Of.Chat.Bot.Platform, BotID: m.Of.Chat.Bot.ID, Event: m.Of.ID, Chat: m.Of.Chat.ID, User: m.Of.User, ChatType: m.Of.Type,
		Instance: m.Instance, Reason: gate.Reason(m.Why), DeliveredAt: m.TakenAt, GivenUp: m.Died,
	}
	if m.Why == dbhistory.Late {
		d.Reason = gate.PromptClosed
	}
	for _, a := range m.Answers {
		d.Answers = append(d.Answers, gate.Answer{At: a.At, Op: a.Op, Message: a.Message, State: string(a.State), Why: a.Why, QueuedAt: a.Queued})
	}
	return d
}
