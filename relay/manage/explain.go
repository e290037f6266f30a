package manage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// history knows what happened to messages, and who changed what.
type history struct {
	directory
	*surroundings
	answers *answers
}

// Explain asks why events went where they went. Empty fields do not matter.
type Explain struct {
	Event   relay.EventID `json:"eventId,omitempty"`
	Gateway string        `json:"gateway,omitempty"` // the name or the id of the one that a verdict is about
	Person  string        `json:"person,omitempty"`  // an id, PLATFORM:ID, a name, or "@" and the account's name
	Since   time.Time     `json:"since,omitzero"`    // judged after that
	Last    int           `json:"last,omitempty"`    // the outcomes of that many newest messages, at most maxExplained; 0: maxExplained
	All     bool          `json:"all,omitempty"`     // also what bots wrote themselves
}

// maxExplained is how many messages are explained at once.
const maxExplained = 1000

// Explain lists verdicts in words, newest last: about stored events of the last thirty days, and about other events
// that the server remembers. Unless one event is asked for, the list includes refused calls of networks, which have no
// event. Refused with Offline if no server runs, and with NotFound if there is no verdict about the event, or no such
// gateway.
func (s *history) Explain(ctx context.Context, e Explain) ([]gate.Decision, error) {
	if s.live == nil {
		return nil, refuse(Offline, "no server is running, and only a running one says what became of messages").try("serve")
	}
	files, err := s.filesOf(ctx)
	if err != nil {
		return nil, err
	}
	out := []gate.Decision{}
	look := lookout{
		history: s, at: make(map[relay.InstanceID]*buffered), people: make(map[store.Person]store.Names), heard: make(map[store.Person]store.Names),
	}
	if look.live, err = s.liveGateways(ctx); err != nil {
		return nil, err
	}
	if e.Last <= 0 || e.Last > maxExplained {
		e.Last = maxExplained
	}
	all, err := look.recall(ctx, e)
	if err != nil {
		return nil, err
	}
	// Only names are needed to choose the verdicts. Whatever costs more is done for the chosen ones alone.
	var wanted []gate.Decision
	for _, d := range all {
		if err := look.name(ctx, &d); err != nil {
			return nil, err
		}
		if e.wanted(d) {
			wanted = append(wanted, d)
		}
	}
	for _, d := range last(wanted, e.Last) {
		if err := look.explain(ctx, &d); err != nil {
			return nil, err
		}
		d.Media = files.of(d)
		out = append(out, d)
	}
	if e.Event == "" && e.Gateway == "" && e.Person == "" {
		out = slices.DeleteFunc(s.withRefusals(out), func(d gate.Decision) bool { return !e.wanted(d) })
	}
	if out, err = s.withWays(ctx, e, out); err != nil {
		return nil, err
	}
	out = last(out, e.Last)
	if e.Event != "" && len(out) == 0 {
		return nil, refuse(NotFound, "no event %q is remembered", e.Event).try("explain")
	}
	if e.Gateway != "" && len(out) == 0 {
		_, err = s.instance(ctx, e.Gateway) // otherwise a mistyped name would look like a gateway without messages
	}
	return out, err
}

// only returns the one instance that a gateway can serve; empty: there is none, or there are several.
func (l *lookout) only() (only relay.InstanceID) {
	if len(l.live) == 1 {
		for only = range l.live {
		}
	}
	return only
}

// buffered holds those entries of one instance's buffer that are to be explained.
type buffered struct {
	instance  store.Instance // zero: it no longer exists
	waiting   map[relay.EventID]relay.Bot
	dead      map[relay.EventID]store.DeadReason
	unfronted []relay.Bot // bots that its gateway does not serve
}

// lookout explains the decisions of one question. It reads each buffer once.
type lookout struct {
	history *history
	live    map[relay.InstanceID]bool // the instances that a gateway can serve
	at      map[relay.InstanceID]*buffered
	people  map[store.Person]store.Names // the names that were read from the database
	heard   map[store.Person]store.Names // the networks' names of people who wrote since the start
}

// last returns the verdicts about the newest n messages and refused calls, in order. One message has a verdict for each
// gateway that could receive the message.
func last(all []gate.Decision, n int) []gate.Decision {
	type message struct {
		bot   relay.Bot
		event relay.EventID
	}
	out := []gate.Decision{}
	kept, left := make(map[message]bool), n
	for _, d := range slices.Backward(all) {
		m := message{d.Bot(), d.Event}
		if d.Event == "" || !kept[m] {
			if left == 0 {
				continue
			}
			left--
		}
		kept[m] = true
		out = append(out, d)
	}
	slices.Reverse(out)
	return out
}

// name sets the names of the gateway and of the person: a name from the operator comes before one from the network.
func (l *lookout) name(ctx context.Context, d *gate.Decision) error {
	if d.Instance != "" {
		d.Gateway = l.history.label(ctx, d.Instance)
	}
	if d.User == "" {
		return nil
	}
	who := store.Person{Platform: d.Platform, User: d.User}
	names, asked := l.people[who]
	if !asked {
		var err error
		if names, err = l.history.names(ctx, who); err != nil {
			return err
		}
		l.people[who] = names
	}
	heard := l.heard[who]
	d.Person, d.Handle = cmp.Or(names.Given, d.Person, names.Told, heard.Told), cmp.Or(d.Handle, names.Handle, heard.Handle)
	return nil
}

// buffer returns the waiting entries of i, and its dead letters.
func (l *lookout) buffer(ctx context.Context, i relay.InstanceID) (*buffered, error) {
	if b := l.at[i]; b != nil {
		return b, nil
	}
	db := l.history.db
	b := &buffered{
		waiting: make(map[relay.EventID]relay.Bot), dead: make(map[relay.EventID]store.DeadReason), unfronted: l.history.live.Unfronted(i),
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

// instance returns the record of i; zero: it no longer exists.
func (l *lookout) instance(ctx context.Context, i relay.InstanceID) (store.Instance, error) {
	inst, err := store.Only(l.history.db.Instances(ctx, i))
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return inst, err
}

// explain finds out where the event of d is, and puts d into words.
func (l *lookout) explain(ctx context.Context, d *gate.Decision) error {
	v := Verdict{Only: l.only(), Revoked: !l.live[d.Instance], Now: l.history.set.Now()}
	switch {
	case d.Reason == gate.Undecided:
		d.State = gate.Waits
	case d.Reason == gate.Oversize:
		d.State = gate.Dead
	case d.Reason == gate.NotPrincipal, d.Reason == gate.NotAddressed:
		i, err := l.instance(ctx, d.Instance)
		if err != nil {
			return err
		}
		v.Instance = i
	case d.Reason != gate.Delivered:
	case !d.DeliveredAt.IsZero():
		d.State = gate.Taken
	default:
		b, err := l.buffer(ctx, d.Instance)
		if err != nil {
			return err
		}
		if bot, waits := b.waiting[d.Event]; waits && bot == d.Bot() {
			d.State, v.State, v.Instance = gate.Waits, l.history.state(b.instance), b.instance
			if slices.Contains(b.unfronted, bot) {
				v.Unserved = l.history.unserved(bot)
			}
		} else if v.Dead = cmp.Or(b.dead[d.Event], store.DeadReason(d.GivenUp)); v.Dead != "" {
			d.State = gate.Dead
			v.Left = b.dead[d.Event] == "" // only the history still knows that it was given up
		}
	}
	l.history.say(d, v)
	if d.Reason == gate.Delivered {
		d.Reason = gate.Accepted
	}
	return nil
}
