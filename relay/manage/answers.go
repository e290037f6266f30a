package manage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/outbound"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/outbox"
)

// answers manages the final answers of gateways that no network has taken yet, and knows the outcome of the last ones.
type answers struct {
	directory
	*surroundings
}

// Outbox sends the answers that wait. *outbound.Queue implements it. Its methods are called from any goroutine, and do not block.
type Outbox interface {
	// State returns what delays the answers of a chat now; ok is false if none waits there.
	State(relay.Chat) (s outbound.State, ok bool)
	// Ended returns the last answers that were not sent, the oldest first.
	Ended() []outbound.Ended
	// Recheck makes the Outbox check which answers are still stored.
	Recheck()
}

// Answer is one answer, with its destination but without its content.
type Answer struct {
	ID       relay.MessageID  `json:"messageId"`
	Instance relay.InstanceID `json:"instanceId"`
	Name     string           `json:"name,omitempty"` // the name that the instance was given
	At       time.Time        `json:"at"`             // when it came
	Platform relay.PlatformID `json:"platform"`
	Bot      relay.BotID      `json:"botId"`
	Chat     relay.ChatID     `json:"chatId"`
	State    outbox.State     `json:"state"`
	Why      string           `json:"why,omitempty"` // why its last try failed, in the words that its gateway would read
	Next     time.Time        `json:"next,omitzero"` // when it is tried again at the latest, as far as is known
	Sent     time.Time        `json:"sentAt,omitzero"`
}

// AnswerQuery names answers of an instance. Without ids it means all unsent answers of the instance.
type AnswerQuery struct {
	Name string            `json:"name,omitempty"`
	IDs  []relay.MessageID `json:"messageIds,omitempty"`
}

// Answers lists the answers of an instance that are not sent, or those of all instances, the oldest first. Refused with NotFound.
func (s *answers) Answers(ctx context.Context, q AnswerQuery) ([]Answer, error) {
	i, err := s.maybe(ctx, Named{q.Name})
	if err != nil {
		return nil, err
	}
	all, err := s.list(ctx, outbox.Filter{Instance: i.ID})
	return slices.DeleteFunc(all, func(a Answer) bool { return len(q.IDs) > 0 && !slices.Contains(q.IDs, a.ID) }), err
}

// DropAnswers deletes answers that are not sent. An answer that is being sent at this moment may still arrive. Refused
// with NotFound if the gateway does not exist, or none of the ids is one of its answers.
func (s *answers) DropAnswers(ctx context.Context, by audit.Actor, q AnswerQuery) (Moved, error) {
	i, err := s.instance(ctx, q.Name)
	if err != nil {
		return Moved{}, err
	}
	n, err := s.db.DropAnswers(ctx, row(by, "drop-answers", i, ""), i.ID, q.IDs...)
	if err != nil {
		return Moved{}, err
	}
	if n == 0 && len(q.IDs) > 0 {
		return Moved{}, refuse(NotFound, "%q has no such answer", q.Name).try("answers", q.Name)
	}
	if s.set.Outbox != nil {
		s.set.Outbox.Recheck()
	}
	return Moved{Instance: i.ID, Count: n}, nil
}

// list returns the answers that f selects, each with its obstacle: the one that its last try met, unless the server
// knows a newer one.
func (s *answers) list(ctx context.Context, f outbox.Filter) ([]Answer, error) {
	all, err := s.db.Outbox.List(ctx, f)
	return each(all, func(r outbox.Record) Answer {
		a := s.answer(ctx, r)
		if s.set.Outbox == nil || a.State == outbox.Sent {
			return a
		}
		if st, ok := s.set.Outbox.State(r.Line()); ok {
			a.Why, a.Next = cmp.Or(st.Why, a.Why), st.Next.UTC()
		}
		return a
	}), err
}

func (s *answers) answer(ctx context.Context, r outbox.Record) Answer {
	a := Answer{
		ID: r.ID, Instance: r.Instance, Name: s.label(ctx, r.Instance), At: r.At.UTC(), Platform: r.Bot.Platform, Bot: r.Bot.ID, Chat: r.Chat,
		State: r.State(), Why: r.Why,
	}
	if a.State == outbox.Sent {
		a.Sent = r.Over.UTC()
	}
	return a
}

// Waiting counts the answers that wait for a bot's network.
type Waiting struct {
	Count    int       `json:"count"`
	OldestAt time.Time `json:"oldestAt"`
	Why      string    `json:"why,omitempty"` // Why and Next of the oldest Answer
	Next     time.Time `json:"next,omitzero"`
}

// show adds to st how many answers wait for each bot and of each instance, and returns those whose time is over.
func (s *answers) show(ctx context.Context, st *Status) (late []Answer, err error) {
	all, err := s.list(ctx, outbox.Filter{})
	for _, a := range all {
		if a.State == outbox.Late {
			late = append(late, a)
			continue
		}
		for n := range st.Bots {
			if b := &st.Bots[n]; b.Platform == a.Platform && b.ID == a.Bot {
				if b.Answers == nil {
					b.Answers = &Waiting{OldestAt: a.At, Why: a.Why, Next: a.Next}
				}
				b.Answers.Count++
			}
		}
		for n := range st.Instances {
			if i := &st.Instances[n]; i.ID == a.Instance {
				i.Answers++
			}
		}
	}
	return late, err
}

// ways returns the outcome of the known answers, each as a verdict without an event.
func (s *answers) ways(ctx context.Context) (out []gate.Decision, err error) {
	all, err := s.list(ctx, outbox.Filter{Sent: true})
	known := make(map[relay.MessageID]bool)
	for _, a := range all {
		known[a.ID] = true
		out = append(out, s.way(a, nil))
	}
	if s.set.Outbox != nil {
		for _, e := range s.set.Outbox.Ended() {
			if !known[e.ID] { // a late answer whose person has not been told has a record, and so is listed above
				out = append(out, s.way(s.answer(ctx, e.Record), &e))
			}
		}
	}
	return out, err
}

// way returns the outcome of a; for an answer that is gone, why it was not sent.
func (s *answers) way(a Answer, ended *outbound.Ended) gate.Decision {
	d := gate.Decision{
		At: a.At, Platform: a.Platform, BotID: a.Bot, Chat: a.Chat, Instance: a.Instance, Gateway: a.Name, Answer: a.ID,
		Reason: gate.Reason("answer_" + string(a.State)),
	}
	switch {
	case ended != nil:
		d.Reason, d.State = gate.Reason("answer_"+string(ended.Because)), gate.Dead
	case a.State == outbox.Waiting:
		d.State = gate.Waits
	case a.State == outbox.Sent:
		d.State, d.DeliveredAt = gate.Taken, a.Sent
	default:
		d.State = gate.Dead
	}
	s.say(&d, Verdict{Answer: &a, Ended: ended, Now: s.set.Now()})
	return d
}

// withWays adds the outcomes of answers to all, in the order of time, if e asks for them. A question about an event or
// a person does not, because such an outcome belongs to neither.
func (s *history) withWays(ctx context.Context, e Explain, all []gate.Decision) ([]gate.Decision, error) {
	if e.Event != "" || e.Person != "" {
		return all, nil
	}
	ways, err := s.answers.ways(ctx)
	for _, d := range ways {
		if e.wanted(d) {
			all = append(all, d)
		}
	}
	sortByTime(all)
	return all, err
}
