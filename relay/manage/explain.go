package manage

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// history is what became of messages, and who changed what.
type history struct {
	directory
	*surroundings
}

// Explain asks why an event went where it went.
type Explain struct {
	Event relay.EventID `json:"eventId,omitempty"` // empty: all that is remembered
}

// Explain lists the verdicts the server remembers, newest last, each in words, and among them, unless it is asked for one
// event, the calls of networks that were refused: these have no event. Refused with Offline when no
// server runs (they are kept in its memory only), with NotFound when the event is not among them.
func (s *history) Explain(ctx context.Context, e Explain) ([]gate.Decision, error) {
	if s.live == nil {
		return nil, refuse(Offline, "no server is running: a server keeps its decisions in memory only; start one with hermes-connector serve")
	}
	files, err := s.filesOf(ctx)
	if err != nil {
		return nil, err
	}
	out := []gate.Decision{}
	look := lookout{service: s, at: make(map[relay.InstanceID]*buffered)}
	if look.live, err = s.liveGateways(ctx); err != nil {
		return nil, err
	}
	for _, d := range s.live.Decisions() {
		if e.Event != "" && d.Event != e.Event {
			continue
		}
		if err := look.explain(ctx, &d); err != nil {
			return nil, err
		}
		d.Media = files.of(d)
		out = append(out, d)
	}
	if e.Event == "" {
		out = s.withRefusals(out)
	}
	if e.Event != "" && len(out) == 0 {
		return nil, refuse(NotFound, "the server remembers no event %q: hermes-connector explain lists the events that it remembers", e.Event)
	}
	return out, nil
}

// only is the one instance that a gateway can serve; empty: there is none, or there are several.
func (l *lookout) only() (only relay.InstanceID) {
	if len(l.live) == 1 {
		for only = range l.live {
		}
	}
	return only
}

// buffered is what one instance's buffer holds of the events that are explained.
type buffered struct {
	instance  store.Instance // the zero one: it is not there any more
	waiting   map[relay.EventID]relay.Bot
	dead      map[relay.EventID]store.DeadReason
	unfronted []relay.Bot // that its gateway does not front
}

// lookout explains the decisions of one question. It reads each buffer once.
type lookout struct {
	service *history
	live    map[relay.InstanceID]bool // that a gateway can serve
	at      map[relay.InstanceID]*buffered
}

// buffer is what waits for i, and what of it was given up.
func (l *lookout) buffer(ctx context.Context, i relay.InstanceID) (*buffered, error) {
	if b := l.at[i]; b != nil {
		return b, nil
	}
	db := l.service.db
	b := &buffered{
		waiting: make(map[relay.EventID]relay.Bot), dead: make(map[relay.EventID]store.DeadReason), unfronted: l.service.live.Unfronted(i),
	}
	l.at[i] = b
	var err error
	if b.instance, err = l.instance(ctx, i); err != nil {
		return nil, err
	}
	for _, dead := range []bool{false, true} {
		all, err := db.Lanes.Entries(ctx, i, store.EntryFilter{Dead: dead})
		if err != nil {
			return nil, err
		}
		for _, e := range all {
			if dead {
				b.dead[e.About.ID] = e.Reason
			} else {
				b.waiting[e.About.ID] = e.About.Bot
			}
		}
	}
	return b, nil
}

// instance is i, or the zero instance if it is not there any more.
func (l *lookout) instance(ctx context.Context, i relay.InstanceID) (store.Instance, error) {
	inst, err := store.Only(l.service.db.Instances(ctx, i))
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return inst, err
}

// explain puts d into words.
func (l *lookout) explain(ctx context.Context, d *gate.Decision) error {
	p := phrase{d: d, name: cmp.Or(string(l.only()), "NAME"), revoked: !l.live[d.Instance]}
	switch {
	case d.Reason == gate.Undecided:
		d.Hint = "waiting for the network to say whether " + string(d.Instance) + " can see this chat"
	case d.Reason == gate.NotPrincipal, d.Reason == gate.NotAddressed:
		i, err := l.instance(ctx, d.Instance)
		if err != nil {
			return err
		}
		p.instance = i
	case d.Reason == gate.Delivered && d.DeliveredAt.IsZero():
		b, err := l.buffer(ctx, d.Instance)
		if err != nil {
			return err
		}
		p.buffered = b
		bot, waits := b.waiting[d.Event]
		if p.waits = waits && bot == d.Bot(); p.waits {
			p.state, p.instance = l.service.state(b.instance), b.instance
			p.stuck = slices.Contains(b.unfronted, bot)
		}
		if p.waits && p.stuck {
			d.Hint = "messages of " + bot.String() + " wait: " + l.service.frontLine(bot)
		}
	}
	p.say()
	if d.Reason == gate.Delivered {
		d.Reason = gate.Accepted
	}
	return nil
}
