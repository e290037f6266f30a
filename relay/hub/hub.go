// Package hub knows who is here: which bots are hosted, which gateways are attached, and which of their sessions serves
// which instance. It owns the lanes and runs the platforms. relay/inbound handles events from networks, and
// relay/outbound handles requests from gateways. The hub makes both, and connects them to lanes, sessions and bots.
//
// Invariants:
//
//  1. The identity of a gateway comes from the credential with which its session was opened, never from a frame.
//  2. One session serves an instance; a newer one replaces it.
//
// Decided: A session gets only events of bots that it serves: the gateway could not answer others. An instance is taken
// over at the first hello: a connection that never speaks replaces nobody. Platforms are called directly, without a
// wrapper around them, and no init function registers one.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/background"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/inbound"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/outbound"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

// sweepEvery is how often the hub looks for records that have expired.
const sweepEvery = time.Hour

// Options are the hub's settings; the zero value means the defaults.
type Options struct {
	Delivery delivery.Options
	Session  session.Options // Count and Log are set by the hub
	// Seal seals the credentials of capabilities. Nil: none is kept, and ordinary messages take their place.
	Seal outbound.Sealer
	// Files keeps the files of events. Nil: nobody does, and events are delivered as if they had none.
	Files Files
	// Shard is the shard that the addresses of files name, for a hub that shares a listener with others; empty: it
	// shares none.
	Shard string
	// Outbox is how long a final answer waits that no network takes now; 0: it does not wait.
	Outbox time.Duration
	// Leads reports whether this process may still act; it is asked before a network is called for a gateway. Nil: it
	// always may.
	Leads   func() bool
	Replies inbound.Replies
	// Programs is told what happens to the messages of programs. Nil: nobody wants to know.
	Programs Programs
	// Roster is told a network's changes in who sees what. It must not block. Nil: nobody wants to know.
	Roster func(relay.Bot, []platforms.RosterChange)
	Began  time.Time    // when this process started; zero: now
	Log    *slog.Logger // nil means discard
}

// Files keeps the files of events, and finds those that gateways send. *media.Keeper implements it. Its methods may be
// called from any goroutine.
type Files interface {
	inbound.Files
	outbound.Files
	// Settle waits until each attachment is held or given up, or ctx ends, and returns their states, in order. It waits
	// at most for the operator's fetch_timeout.
	Settle(ctx context.Context, as []relay.Attachment) []relay.Held
	// Read returns the content of a held file that has at most limit bytes.
	Read(ctx context.Context, id relay.MediaID, limit int64) ([]byte, error)
}

// Programs is told what happens to the messages of programs. *agents.Bot implements it. It must not block, except to
// read the database.
type Programs interface {
	// Pushed: the event is about to go down the session that serves the instance.
	Pushed(relay.InstanceID, store.About)
	// Taken: the gateway has acknowledged it, and it has left the lane.
	Taken(relay.InstanceID, store.About)
	// Owed reports whether the message taken last in the chat, before that time and not long ago, has no final answer.
	Owed(ctx context.Context, chat relay.ChatID, before time.Time) bool
}

// Hub joins the platforms and the gateways. Its methods may be called from any goroutine.
type Hub struct {
	// Set once, by New.
	db   *store.DB
	bus  bus.Bus
	log  *slog.Logger
	opts Options

	counters  count.Totals
	decisions inbound.Decisions
	facts     facts.Facts
	tasks     *background.Queue
	hosted    hosted
	sockets   sockets
	in        *inbound.Inbound
	out       *outbound.Outbound

	mu        sync.Mutex // guards instances and their values
	instances map[relay.InstanceID]*instance
}

// New makes a hub for bots. Nothing runs before Run.
func New(db *store.DB, desk *link.Desk, b bus.Bus, bots []platforms.Bot, o Options) *Hub {
	o.Log, o.Began = cmp.Or(o.Log, slog.New(slog.DiscardHandler)), cmp.Or(o.Began, time.Now())
	h := &Hub{db: db, bus: b, log: o.Log, opts: o, instances: make(map[relay.InstanceID]*instance)}
	h.opts.Session.Log, h.opts.Session.Count = o.Log, h.Count
	h.facts.Stored = db
	h.hosted.set(bots)
	h.tasks = background.New(&h.counters, h.log)
	h.out = outbound.New(outbound.Options{
		DB: db, Facts: &h.facts, Bots: &h.hosted, Tasks: h.tasks, Counters: &h.counters, Seal: o.Seal, Files: o.Files, Keep: o.Outbox, Leads: o.Leads, Log: h.log,
	})
	h.in = inbound.New(inbound.Options{
		DB: db, Facts: &h.facts, Desk: desk, Bots: &h.hosted, Gateways: h, Capabilities: h.out.Capabilities, Prompts: h.out.Prompts,
		Decisions: &h.decisions, Counters: &h.counters, Files: o.Files, Replies: o.Replies, Roster: o.Roster, Began: o.Began, Log: h.log,
	})
	return h
}

// Run runs the platforms and the housekeeping until ctx ends, and returns nil then. A platform that gives up (a
// dead credential) ends alone; its status says why. A failed database ends Run with its error.
func (h *Hub) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unsubscribe := h.bus.Subscribe(h.note)
	defer unsubscribe()

	if err := h.out.Capabilities.DropUseless(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	if err := h.out.Commands.Show(ctx, ""); err != nil {
		h.log.Warn("commands not shown; the next hello tries again", "err", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer h.in.End()
	if err := h.in.Begin(ctx, wg.Go); err != nil && ctx.Err() == nil {
		cancel(err)
		return err
	}
	if err := h.out.Prompts.Resume(ctx); err != nil && ctx.Err() == nil {
		cancel(err)
		return err
	}
	if err := h.out.Queue.Resume(ctx); err != nil && ctx.Err() == nil {
		cancel(err)
		return err
	}
	defer h.hosted.end() // runs before wg.Wait: no further bot may join the group
	h.hosted.begin(h.starts(ctx, &wg))
	wg.Go(func() { h.tasks.Run(ctx) })
	wg.Go(func() { h.out.Queue.Run(ctx) })
	wg.Go(func() { h.sweepLoop(ctx) })

	select {
	case <-ctx.Done():
		return nil
	case <-h.db.Failed():
		err := fmt.Errorf("database: %w", h.db.Probe())
		cancel(err)
		return err
	}
}

// runPlatform runs a bot until it ends, and logs why it ended.
func (h *Hub) runPlatform(ctx context.Context, p platforms.Bot) {
	log := h.log.With("bot", p.ID().String())
	log.Info("bot started")
	err := p.Run(ctx, h.in.Inbox(p.ID()))
	switch {
	case err == nil:
		log.Info("bot stopped")
	case errors.Is(err, relay.ErrBadCredentials):
		log.Error("bot stopped: put a valid token in place and reload", "err", err)
	default:
		log.Error("bot stopped", "err", err)
	}
}

// sweepLoop deletes expired records at once and then every sweepEvery, until ctx ends.
func (h *Hub) sweepLoop(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		swept, err := h.db.Sweep(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			h.log.Warn("housekeeping failed; trying again later", "in", sweepEvery, "err", err)
		case err == nil:
			h.counters.Add(count.SweptExpired, uint64(swept.Expired))
			h.counters.Add(count.SweptDeadLetters, uint64(swept.DeadDropped))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// note handles one note of the bus. It must not block.
func (h *Hub) note(n bus.Note) {
	switch n := n.(type) {
	case bus.LaneGrew:
		h.lane(n.Instance).Grown(n.Seq)
	case bus.Changed:
		if s := h.serving(n.Instance); s != nil {
			s.pump.Anew()
		}
	case bus.Interrupt:
		// However many such notes there are, they do not end the session; and a gateway that went idle is left alone.
		if s := h.serving(n.Instance); s != nil {
			s.pump.Awake(func() { s.session.Offer(wire.InterruptInbound{Session: n.Session, Chat: n.Chat}) })
		}
	case bus.Revoked:
		h.endGateway(n.Gateway)
		h.out.Queue.Recheck()
		h.tasks.Put(background.Task{
			GivenUp: count.CommandsLeft, Until: time.Now().Add(background.Life), Harmless: true,
			Do: func(ctx context.Context) error { return h.out.Commands.Show(ctx, "") },
		})
	}
}

// Outbox returns the answers that wait for a network.
func (h *Hub) Outbox() *outbound.Queue { return h.out.Queue }

// Farewell waits until every background task is done, a few seconds at most (background.Queue.Farewell). It is called
// while the hub runs, when no session is left.
func (h *Hub) Farewell(hurry context.Context) { h.tasks.Farewell(hurry) }

// Counters returns totals since the start, by name.
func (h *Hub) Counters() map[string]uint64 { return h.counters.Snapshot() }

// Count adds one to a counter, for parts that have no totals of their own.
func (h *Hub) Count(c count.Counter) { h.counters.Add(c, 1) }

// Decisions returns the newest verdicts, oldest first.
func (h *Hub) Decisions() []gate.Decision { return h.decisions.List() }

// Forget forgets what a person wrote to i or to nobody, and what programs told them in the name of i.
func (h *Hub) Forget(i relay.InstanceID, p relay.PlatformID, u relay.UserID) {
	h.decisions.Forget(i, p, u)
	h.in.Told.Forget(i, p, u)
}

// MayClaim reports whether the instance may be granted a chat because its gateway asks for it, and which place to grant
// (inbound.Inbound).
func (h *Hub) MayClaim(ctx context.Context, i relay.InstanceID, p relay.PlatformID, scope relay.ScopeID, chat relay.ChatID) (relay.Place, bool) {
	return h.in.MayClaim(ctx, i, p, scope, chat)
}

// Tell makes a bot write to a person, with a program's text and in the name of the instance to which they are linked.
// The instance reads that text with the person's next message; see outbound.Outbound.
func (h *Hub) Tell(ctx context.Context, to store.Binding, c relay.Chat, program, text string) (relay.Result, error) {
	res, err := h.out.Tell(ctx, to.Tenant, to.Instance, c, program+": "+text)
	if ae := relay.Explain(err); ae == nil || ae.Outcome != relay.NotSent {
		h.in.Told.Add(to, c.Bot, program, text, time.Now())
	}
	return res, err
}

// Reply changes the connector's own answers to people.
func (h *Hub) Reply(r inbound.Replies) { h.in.Reply(r) }

// Ready reports whether the store is writable and every bot's updates flow.
func (h *Hub) Ready() bool {
	if h.db.Probe() != nil {
		return false
	}
	for _, p := range h.Bots() {
		if p.Status().State != platforms.Connected {
			return false
		}
	}
	return true
}
