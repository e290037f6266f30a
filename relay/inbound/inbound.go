// Package inbound brings events from networks to the lanes of the instances that may see them. It judges every event,
// stores the admitted ones, and judges an event later if only a network's answer is missing.
//
// Invariants:
//
//  1. Accept returns nil only after everything admitted is on disk.
//  2. A fact that cannot be learned, such as visibility, counts as no.
//
// Decided: A platform's moves are stored before its events are judged, so that the gate sees grants under the new id;
// storing a move twice is harmless. Visibility is asked last, since it is the one fact that costs a request. A control
// message that changes nothing and gets no answer is not stored: strangers cannot make the disk work.
package inbound

import (
	"log/slog"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/prompt"
)

// Bots returns the hosted bots. Its methods may be called from any goroutine and do not block.
type Bots interface {
	// Bots returns all hosted bots, in the order of the configuration. The caller does not change the list.
	Bots() []platforms.Bot
	// Bot returns the bot with that id, or nil.
	Bot(relay.Bot) platforms.Bot
}

// Gateways are the gateways that serve the instances. Its methods may be called from any goroutine and do not block.
type Gateways interface {
	// Connected reports whether one serves the instance now.
	Connected(relay.InstanceID) bool
	// Deliver gives the instance's lane an entry that was stored.
	Deliver(relay.InstanceID, store.Entry)
	// Interrupt makes the instance's gateway stop what it runs under the key, for the chat.
	Interrupt(relay.InstanceID, relay.SessionKey, relay.ChatID)
}

// Capabilities keeps the credentials with which events are answered, and answers through them: it sends the connector's
// own answers, and takes away buttons and placeholders. *outbound.Capabilities implements it. Its methods do not block.
type Capabilities interface {
	// Bind returns the capability in its stored form, for the instance that is to receive the event; nil: none is kept.
	// undecided: the event waits for its verdict.
	Bind(c platforms.Capability, ev relay.Event, t relay.TenantID, i relay.InstanceID, undecided bool) *capability.Record
	// Open returns a stored capability with its credential; false: it cannot be opened.
	Open(capability.Record) (platforms.Capability, bool)
	// Answer sends the connector's own answer to an event, through c unless it is nil, with its options as buttons if
	// the network has buttons.
	Answer(ev relay.Event, a relay.Answer, c *platforms.Capability)
	// Settle takes away the buttons through which c came: somebody got the press.
	Settle(relay.Bot, platforms.Capability)
	// Discard takes away c's placeholder: nobody got the event.
	Discard(relay.Bot, platforms.Capability)
	// DiscardLost takes away the placeholders of dropped capabilities through which nobody has answered.
	DiscardLost([]capability.Record)
}

// Prompts removes the buttons of questions. *outbound.Prompts implements it. Its methods do not block.
type Prompts interface {
	// Clear takes away the buttons of a prompt that is answered.
	Clear(prompt.Record)
	// ClearPressed takes away the buttons that ev pressed without effect.
	ClearPressed(ev relay.Event)
}

// Files fetches the files of events. It does not block.
type Files interface {
	Fetch(as ...relay.Attachment)
}

// Replies are the connector's own answers to people in direct messages; the zero value is silence.
type Replies struct {
	// Unbound is the answer to a person who is linked to no gateway, at most once a day (UTC); empty: none.
	Unbound string
	// Away: a person who writes to a gateway that is away is told so, once for each absence.
	Away bool
}

// Options are the parts that an Inbound works with.
type Options struct {
	DB           *store.DB
	Facts        *facts.Facts
	Desk         *link.Desk
	Bots         Bots
	Gateways     Gateways
	Capabilities Capabilities
	Prompts      Prompts
	Decisions    *Decisions
	Counters     *count.Totals
	Files        Files // nil: nobody keeps files, and events are delivered as if they had none
	Replies      Replies
	// Roster is told a network's changes in who sees what. It must not block. Nil: nobody wants to know.
	Roster func(relay.Bot, []platforms.RosterChange)
	Began  time.Time // when this process came up
	Log    *slog.Logger
}

// Inbound takes events to lanes. Its methods may be called from any goroutine.
type Inbound struct {
	// Told remembers what programs told people.
	Told Told

	db           *store.DB
	facts        *facts.Facts
	bots         Bots
	gateways     Gateways
	capabilities Capabilities
	prompts      Prompts
	decisions    *Decisions
	counters     *count.Totals
	files        Files
	roster       func(relay.Bot, []platforms.RosterChange) // nil: nobody wants to know
	log          *slog.Logger

	judge   *judge
	runs    runs
	presses presses
	workers workers
}

// New makes an Inbound. Undecided events wait for Begin.
func New(o Options) *Inbound {
	in := &Inbound{
		db: o.DB, facts: o.Facts, bots: o.Bots, gateways: o.Gateways, capabilities: o.Capabilities, prompts: o.Prompts,
		decisions: o.Decisions, counters: o.Counters, files: o.Files, roster: o.Roster, log: o.Log,
	}
	in.judge = &judge{db: o.DB, facts: o.Facts, desk: o.Desk, bots: o.Bots, gateways: o.Gateways, told: &in.Told, began: o.Began}
	in.Reply(o.Replies)
	return in
}

// Reply changes the connector's own answers to people.
func (in *Inbound) Reply(r Replies) { in.judge.replies.Store(&r) }

// RunOf returns the instance of the tenant that runs the key, preferring i itself, and the chat of that run.
func (in *Inbound) RunOf(t relay.TenantID, i relay.InstanceID, key relay.SessionKey) (relay.InstanceID, relay.ChatID, bool) {
	v, ok := in.runs.find(t, i, key)
	return v.instance, v.chat, ok
}
