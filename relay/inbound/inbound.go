// Package inbound brings what networks bring to the lanes of the instances that may see it: it judges every event, stores what
// is admitted, and has judged later what lacks only a network's word.
//
// Invariants:
//
//  1. Accept returns nil only after everything admitted is on disk.
//  2. What cannot be learned (a fact, a visibility) counts as no.
//
// Decided: A platform's moves are stored before its events are judged, so that the gate sees grants under the new id;
// doing it twice is harmless. Visibility is asked last, since it is the one fact that costs a request. A control message
// that changes nothing and gets no answer is not stored: strangers cannot make the disk work.
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

// Bots are the bots that are hosted. All methods: any goroutine; none blocks.
type Bots interface {
	// Bots are all, in the order of the configuration. The caller does not change the list.
	Bots() []platforms.Bot
	// Bot is the one of that id, or nil.
	Bot(relay.Bot) platforms.Bot
}

// Gateways are those that serve the instances. All methods: any goroutine; none blocks.
type Gateways interface {
	// Connected reports whether one serves the instance now.
	Connected(relay.InstanceID) bool
	// Deliver gives the instance's lane an entry that was stored.
	Deliver(relay.InstanceID, store.Entry)
	// Interrupt has the instance's gateway stop what it runs under the key, about the chat.
	Interrupt(relay.InstanceID, relay.SessionKey, relay.ChatID)
}

// Capabilities keep what events are answered with, and take away what networks show meanwhile; *outbound.Capabilities. None of
// the methods blocks.
type Capabilities interface {
	// Bind is a capability as it is stored with its event, for the instance that is to receive the event; nil: none is
	// kept. undecided: the event waits for its verdict.
	Bind(c platforms.Capability, ev relay.Event, t relay.TenantID, i relay.InstanceID, undecided bool) *capability.Record
	// Open is a stored one with its credential; false: that does not open.
	Open(capability.Record) (platforms.Capability, bool)
	// Answer puts the connector's own answer to an event on its way, through c if there is one, with its options as buttons
	// where the network has such.
	Answer(ev relay.Event, a relay.Answer, c *platforms.Capability)
	// Settle takes away the buttons through which c came: somebody got the press.
	Settle(relay.Bot, platforms.Capability)
	// Discard takes away c's placeholder: nobody got the event.
	Discard(relay.Bot, platforms.Capability)
	// DiscardLost takes away those of capabilities that had to go, and that nobody has answered through.
	DiscardLost([]capability.Record)
}

// Prompts are the buttons of questions; *outbound.Prompts. None of the methods blocks.
type Prompts interface {
	// Clear takes away the buttons of a prompt that is answered.
	Clear(prompt.Record)
	// ClearPressed takes away those that ev pressed to no end.
	ClearPressed(ev relay.Event)
}

// Files fetches what comes with events. It does not block.
type Files interface {
	Fetch(as ...relay.Attachment)
}

// Replies are what the connector itself tells people in direct messages; the zero value is silence.
type Replies struct {
	// Unbound is told to a person who is linked to no gateway, at most once on a day (UTC); empty: nothing.
	Unbound string
	// Away: who writes to a gateway that is away is told so, once while that lasts.
	Away bool
}

// Options are what an Inbound works with.
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
	// Roster is told what a network says of who sees what. It must not block. Nil: nobody wants to know.
	Roster func(relay.Bot, []platforms.RosterChange)
	Began  time.Time // when this process came up
	Log    *slog.Logger
}

// Inbound takes events to lanes. Its methods may be called from any goroutine.
type Inbound struct {
	// Told is what programs told people.
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

// New makes an Inbound. What is undecided waits for Begin.
func New(o Options) *Inbound {
	in := &Inbound{
		db: o.DB, facts: o.Facts, bots: o.Bots, gateways: o.Gateways, capabilities: o.Capabilities, prompts: o.Prompts,
		decisions: o.Decisions, counters: o.Counters, files: o.Files, roster: o.Roster, log: o.Log,
	}
	in.judge = &judge{db: o.DB, facts: o.Facts, desk: o.Desk, bots: o.Bots, gateways: o.Gateways, told: &in.Told, began: o.Began}
	in.Reply(o.Replies)
	return in
}

// Reply changes what people are told.
func (in *Inbound) Reply(r Replies) { in.judge.replies.Store(&r) }

// RunOf is the instance of the tenant that runs the key, i's own run before others', and the chat of it.
func (in *Inbound) RunOf(t relay.TenantID, i relay.InstanceID, key relay.SessionKey) (relay.InstanceID, relay.ChatID, bool) {
	v, ok := in.runs.find(t, i, key)
	return v.instance, v.chat, ok
}
