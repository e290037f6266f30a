package inbound

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/visibility"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/prompt"
)

// judge decides what happens to events. It changes nothing that is stored, except what control messages request.
type judge struct {
	// Set once, by New.
	db       *store.DB
	facts    *facts.Facts
	desk     *link.Desk
	bots     Bots
	gateways Gateways
	told     *Told
	began    time.Time // when this process came up

	replies atomic.Pointer[Replies]
}

// judgement is what happens to one event.
type judgement struct {
	event    relay.Event
	frame    []byte         // of the event; nil: nobody gets it
	forward  *store.Forward // replaces the frame; nil: nothing does
	verdicts []verdict      // at least one
	// consumed: something is stored of the event, at least the mark that it was seen. A dropped event writes nothing.
	consumed   bool
	context    bool // a receiver is to be told the messages before it
	to         []store.Recipient
	undecided  []relay.InstanceID    // instances whose verdict waits, for the network or behind an earlier event
	ofOwner    bool                  // the author is bound to an instance and wrote in a shared chat, so they see it
	answer     relay.Answer          // of the connector's own: to a control message, or a notice
	told       relay.EventID         // the mark of the notice in answer; empty: the answer is not a notice
	press      *prompt.Press         // the press on a prompt; it counts if none was stored before; nil: no press
	capability *platforms.Capability // the event's capability; nil: none
	holder     relay.InstanceID      // the owner of that capability if the event is stored for it; empty: nobody
}

// verdict is the verdict for one instance or, with an empty instance, for the event.
type verdict struct {
	Instance relay.InstanceID
	Tenant   relay.TenantID
	Reason   gate.Reason
	buffer   relay.BufferID // the id under which the event was stored; zero: it was not stored
}

func dropped(ev relay.Event, why gate.Reason) judgement {
	return judgement{event: ev, verdicts: []verdict{{Reason: why}}}
}

// arrived decides about an event that has just arrived, in the order: own message, duplicate, control, another bot's
// command, then the possible recipients. before are the judgements about the events before it in its batch. An error
// comes from the store.
func (g *judge) arrived(ctx context.Context, ev relay.Event, before []judgement) (j judgement, err error) {
	if ev.Traits.Own {
		return dropped(ev, gate.OwnMessage), nil
	}
	asks, control := link.Command(ev)
	err = g.db.View(ctx, func(ctx context.Context) error {
		seen, err := g.db.Seen.Has(ctx, ev.Bot, ev.ID)
		if err == nil && control && !seen {
			control, err = g.desk.Ours(ctx, ev, asks)
		}
		switch {
		case err != nil:
			return err
		case seen:
			control, j = false, dropped(ev, gate.Duplicate)
		case control:
		case ev.Traits.OtherCommand:
			j = dropped(ev, gate.OtherCommand)
		default:
			if j, err = g.judgeRecipients(ctx, ev, before); err == nil {
				err = g.greet(ctx, &j, before)
			}
		}
		return err
	})
	if err != nil || !control {
		return j, err
	}
	// A control message that changes nothing and gets no answer writes nothing either, however often it is sent.
	j = dropped(ev, gate.Control)
	j.answer, err = g.desk.Do(ctx, ev, asks)
	j.consumed = j.answer.Text != ""
	return j, err
}

// judgeRecipients asks the gate about every instance that could receive ev, and gathers the verdicts and the receivers.
// If the instance that the author addressed by name gets the event, no other does.
func (g *judge) judgeRecipients(ctx context.Context, ev relay.Event, before []judgement) (judgement, error) {
	cs, none, err := g.possibleRecipients(ctx, ev, "")
	if err != nil {
		return judgement{}, err
	}
	if len(cs) == 0 {
		return dropped(ev, none), nil
	}
	j, fits := judgement{event: ev}, false
	whole := ev            // with the name by which the author addressed an instance
	for _, c := range cs { // the instance that the author named comes first
		j.ofOwner = j.ofOwner || c.bound && ev.Source.ChatType != relay.ChatDM
		v := verdict{Instance: c.instance.ID, Tenant: c.instance.Tenant}
		if cs[0].named && j.consumed {
			v.Reason = gate.NotNamed
			j.verdicts = append(j.verdicts, v)
			continue
		}
		ev = c.completed(whole)
		j.event = ev
		if v.Reason, err = g.decideFor(ctx, ev, c, before); err != nil {
			return judgement{}, err
		}
		switch v.Reason {
		case gate.Undecided:
			j.undecided, j.consumed = append(j.undecided, c.instance.ID), true
		case gate.Delivered:
			if j.frame == nil { // once for all: every instance gets the same frame, except for its profile
				j.frame, fits = wire.Pack(ev)
			}
			if v.Reason, err = g.give(ctx, &j, c, fits); err != nil {
				return judgement{}, err
			}
			if err = g.excuse(ctx, &j, c.instance, before); err != nil {
				return judgement{}, err
			}
			j.consumed = true
		}
		j.verdicts = append(j.verdicts, v)
	}
	return j, nil
}

// give adds the recipient to the receivers of the event, and returns the verdict. fits: the event's frame is small
// enough for the wire.
func (g *judge) give(ctx context.Context, j *judgement, c recipient, fits bool) (gate.Reason, error) {
	ev := j.event
	j.press = c.press(ev)
	profile := "" // the one of its gateway's profiles that acted on the chat last
	if c.instance.Profiles {
		talk, _, err := g.facts.Conversation(ctx, c.instance.ID, ev.Chat())
		if err != nil {
			return "", err
		}
		profile = talk.Profile
	}
	if profile != "" && fits {
		ev.Source.Profile = profile
		_, fits = wire.Pack(ev)
	}
	j.to = append(j.to, store.Recipient{Instance: c.instance.ID, Conversation: c.conversation(j.event), Oversize: !fits, Profile: profile})
	if !fits {
		return gate.Oversize, nil
	}
	// remembers: there may be earlier messages that the event can bring as context.
	_, remembers := g.bots.Bot(ev.Bot).(platforms.Historian)
	if ev.Source.ChatType == relay.ChatDM {
		remembers = g.told.any(reader{c.instance.ID, ev.Bot, ev.Source.UserID})
	}
	if remembers {
		j.context = j.context || bringsContext(ev, c.instance.Relevance[ev.Source.Platform].Context, c.grant, c.bound)
	}
	return gate.Delivered, nil
}

// pack makes a forward replace the event's frame, if d is a forward that fits, and somebody gets the event.
func (j *judgement) pack(d relay.Delivery) {
	if f, ok := d.(relay.Forward); ok && j.frame != nil {
		if line, fits := wire.Pack(f); fits {
			j.forward = &store.Forward{Frame: line, Until: f.Until}
		}
	}
}

// recipient is a possible recipient of an event: an instance that could receive it, with its stored facts.
type recipient struct {
	instance store.Instance
	bound    bool           // the author is bound to it, and of their instances it is the one that gets the event
	grant    bool           // it holds the grant covering the chat
	direct   bool           // the event's chat counts as a direct message
	asked    *prompt.Record // its prompt that the event answers; nil: the event is not a press on a prompt
	named    bool           // the author wrote to it by name
	told     string         // the text behind the name
}

// possibleRecipients returns the instances that could receive ev: the one among the author's own that gets the event,
// and the holder of the grant that covers the chat, if that is not one of them. The instance that the author addressed
// by name comes first. A button press is for one of them only; a press that answers a prompt is for the instance that
// asked. none is the reason if there is no recipient. spokenTo is the instance whose name was removed from ev's text
// before; empty: none.
func (g *judge) possibleRecipients(ctx context.Context, ev relay.Event, spokenTo relay.InstanceID) (out []recipient, none gate.Reason, err error) {
	none = nobody(ev)
	if ev.Prompt != nil {
		out, err = g.asker(ctx, ev)
		return out, none, err
	}
	src := ev.Source
	grant, granted, err := g.facts.Covering(ctx, src.Place())
	if err != nil {
		return nil, none, err
	}
	var owned []gate.Owned
	if src.UserID != "" {
		bindings, err := g.facts.Bindings(ctx, store.BindingFilter{Platform: src.Platform, User: src.UserID})
		if err != nil {
			return nil, none, err
		}
		for _, b := range bindings {
			owned = append(owned, gate.Owned{Instance: b.Instance, DMDefault: b.DMDefault, Commands: b.Commands})
		}
		if len(bindings) > 0 {
			g.db.People.Heard(store.Person{Platform: src.Platform, User: src.UserID}, bindings[0].Names, store.NamesIn(src))
		}
	}
	named, told := spokenTo, ev.Text
	if spokenTo == "" {
		if named, told, err = g.spoken(ctx, ev, owned, grant.Instance); err != nil {
			return nil, none, err
		}
	}
	said := ev // without the name of an instance at its beginning
	if named != "" {
		said = gate.Without(ev, told)
	}
	private := direct(g.bots.Bot(ev.Bot), ev, granted && grant.Chat == src.ChatID)
	add := func(i relay.InstanceID, c recipient) error {
		c.direct = private
		c.instance, err = store.Only(g.facts.Instances(ctx, i))
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case err != nil:
			return err
		case i == named:
			c.named, c.told = true, told
			out = slices.Insert(out, 0, c)
		default:
			out = append(out, c)
		}
		return nil
	}
	own, bound := gate.OwnInstance(owned, grant.Instance, named, gate.CommandOf(said), private)
	if bound {
		if err := add(own, recipient{bound: true, grant: granted && grant.Instance == own}); err != nil {
			return nil, none, err
		}
	}
	if len(owned) > 0 && !bound {
		none = gate.NoCommand
	}
	// foreign: the grant's holder is none of the author's own instances. If the author is linked to the holder for
	// commands only, they count as a stranger there.
	foreign := granted && grant.Instance != own && !slices.ContainsFunc(gate.Whole(owned), func(o gate.Owned) bool { return o.Instance == grant.Instance })
	if foreign && !(ev.Traits.Press && bound) {
		if err := add(grant.Instance, recipient{grant: true}); err != nil {
			return nil, none, err
		}
	}
	return out, none, nil
}

// spoken returns the instance, among the author's own and the holder of the grant, that the author addressed by name,
// and the text behind the name; empty: none of them.
func (g *judge) spoken(ctx context.Context, ev relay.Event, owned []gate.Owned, holder relay.InstanceID) (relay.InstanceID, string, error) {
	if !strings.HasPrefix(strings.TrimSpace(ev.Text), "@") {
		return "", "", nil
	}
	var among []gate.Callable
	for _, o := range append(slices.Clone(owned), gate.Owned{Instance: holder}) {
		if o.Instance == "" || slices.ContainsFunc(among, func(c gate.Callable) bool { return c.Instance == o.Instance }) {
			continue
		}
		i, err := store.Only(g.facts.Instances(ctx, o.Instance))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", "", err
		}
		among = append(among, gate.Callable{Instance: o.Instance, Label: i.Label})
	}
	i, told, _ := gate.Spoken(ev, among)
	return i, told, nil
}

// ask asks the gate about one recipient, with the facts that are known: it does not ask the network. known is false if
// only the network's answer about who sees the chat is missing; without it the verdict is no.
func (g *judge) ask(ctx context.Context, ev relay.Event, c recipient) (why gate.Reason, known bool, err error) {
	f := c.facts(ev)
	f.Visible = true // first as if somebody saw the chat: a no even then is final
	if why := c.decide(ev, f); why != gate.Delivered || f.Direct {
		return why, true, nil
	}
	sees, known, err := g.knownToSee(ctx, ev, c)
	f.Visible = sees && known
	return c.decide(ev, f), known, err
}

// decideFor is ask for an event that has just arrived: it returns Undecided if only the network's answer is missing, or
// an earlier event of the chat waits for that answer.
func (g *judge) decideFor(ctx context.Context, ev relay.Event, c recipient, before []judgement) (gate.Reason, error) {
	why, known, err := g.ask(ctx, ev, c)
	if err != nil || known && why != gate.Delivered || c.direct {
		return why, err
	}
	chat := ev.Chat()
	waiting, err := g.db.Pending.Count(ctx, store.PendingFilter{Chat: chat, Instance: c.instance.ID, Limit: MaxUndecided})
	if err != nil {
		return "", err
	}
	for _, j := range before {
		if slices.Contains(j.undecided, c.instance.ID) && j.event.Source.ChatID == chat.ID {
			waiting++
		}
	}
	switch {
	case known && waiting == 0:
		return gate.Delivered, nil
	case waiting >= MaxUndecided && !known:
		// If somebody bound is known to see the chat, such as the author, the event waits even beyond the limit.
		return gate.NotVisible, nil
	}
	return gate.Undecided, nil
}

// knownToSee reports whether somebody who is bound to the recipient can see the event's chat now. known is false if the
// network would have to be asked. A person who writes in a chat sees it.
func (g *judge) knownToSee(ctx context.Context, ev relay.Event, c recipient) (sees, known bool, err error) {
	if c.bound {
		return true, true, nil
	}
	p := g.bots.Bot(ev.Bot)
	if _, asks := p.(platforms.Roster); !asks { // the network cannot say who sees a chat, which counts as no
		return false, true, nil
	}
	known, n := true, 0
	for u, err := range g.facts.Watchers(ctx, c.instance.ID, ev.Chat()) {
		if err != nil {
			return false, false, err
		}
		s, k := g.facts.Visible.Get(visibility.Of{Bot: ev.Bot, Place: ev.Source.Place(), User: u})
		if k && s {
			return true, true, nil
		}
		known = known && k
		if n++; !known && n >= facts.SomeWatchers {
			break // more people will not decide it: the network has to be asked
		}
	}
	return false, known, nil
}

// direct reports whether the chat of an event counts as a direct message. On a network where others can join such a
// chat, a claimed chat is a room and stays one, whoever is left in it.
func direct(b platforms.Bot, ev relay.Event, claimed bool) bool {
	_, joinable := b.(platforms.Sharer)
	return ev.Source.ChatType == relay.ChatDM && !(claimed && joinable)
}

// facts returns what the gate is told about the event and the recipient, except whether the chat is visible.
func (c recipient) facts(ev relay.Event) gate.Facts {
	src := ev.Source
	policy, declared := c.instance.Relevance[src.Platform]
	if !declared {
		policy.RequireAddress = true // newer gateways assume this, and it is the safe value
	}
	return gate.Facts{
		Direct:      c.direct,
		AuthorBound: c.bound,
		HoldsGrant:  c.grant,
		Principal:   c.instance.Principal.Policy,
		AuthorListed: slices.Contains(c.instance.Principal.Allow, store.Person{
			Platform: src.Platform, User: src.UserID,
		}),
		Approval:         gate.IsApproval(ev.Text),
		AuthorIsBot:      ev.Traits.AuthorIsBot,
		Addressed:        ev.Traits.Addressed,
		RequireAddress:   policy.RequireAddress,
		FreeResponse:     slices.Contains(policy.FreeResponseScopes, src.ChatID) || src.ParentChatID != "" && slices.Contains(policy.FreeResponseScopes, src.ParentChatID),
		AllowOtherBots:   policy.AllowOtherBots,
		OwnerMustAddress: policy.OwnerMustAddress,
	}
}

// conversation returns the record of why the recipient may act on the event's chat from now on.
func (c recipient) conversation(ev relay.Event) store.Conversation {
	conv := store.Conversation{
		Scope: ev.Source.Scope, Parent: ev.Source.ParentChatID, Type: ev.Source.ChatType, ByGrant: c.grant,
	}
	if c.bound {
		conv.By = ev.Source.UserID
	}
	return conv
}
