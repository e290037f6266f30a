// Package hub is where both sides meet: Accept takes events from the platforms to the instances that may see them,
// a seat takes actions from its gateway to the bots it may act with. It owns the lanes, knows which session serves
// which instance, and runs the platforms.
//
// Invariants:
//
//  1. Accept returns nil only after everything admitted is on disk.
//  2. Who asks comes from the credential a session was opened with, never from a frame.
//  3. An action reaches a platform only after gate.MayAct said yes for that instance and chat.
//  4. One session serves an instance; a newer one replaces it.
//  5. What cannot be learned (a fact, a visibility) counts as no.
//
// Decided: A platform's moves are stored before its events are judged, so that the gate sees grants under the new id;
// doing it twice is harmless. Visibility is asked last, since it is the one fact that costs a request. A session gets
// what it fronts: the gateway could not answer anything else. A seat is taken at the first hello: a connection that
// never speaks replaces nobody. A control message that changes nothing and gets no answer is not stored: strangers
// cannot make the disk work. No wrapper stands around a platform, and no init registers one. The right to put an answer in
// a placeholder's place is taken once, and given back only if certainly nothing was sent; where nobody knows, after a
// restart or an unclear answer, the network is asked. A stop leaves placeholders: whoever starts next answers through them.
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
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/store"
)

// sweepEvery is the pause between two looks for what is past its time.
const sweepEvery = time.Hour

// Options are the hub's settings; the zero value means the defaults.
type Options struct {
	Delivery delivery.Options
	Session  session.Options // Count and Log are set by the hub
	// Seal seals the credentials of capabilities. Nil: none is kept, and what they are for is answered by ordinary messages.
	Seal Sealer
	// Files keeps what comes with events. Nil: nobody does, and events are delivered as if they had none.
	Files   Files
	Replies Replies
	Log     *slog.Logger // nil means discard
}

// Hub joins the platforms and the gateways. Its methods may be called from any goroutine.
type Hub struct {
	// Set once, by New.
	db    *store.DB
	facts *facts.Facts
	desk  *link.Desk
	bus   bus.Bus
	log   *slog.Logger
	opts  Options
	began time.Time

	counters   count.Totals
	decisions  decisions
	runs       runs
	answerings answerings
	presses    presses
	reacting   reacting
	tasks      *background.Queue
	sockets    sockets
	judges     judges
	hosted     hosted

	mu        sync.Mutex // guards instances and what it leads to
	instances map[relay.InstanceID]*instance
}

// New makes a hub for bots. Nothing runs before Run.
func New(db *store.DB, desk *link.Desk, b bus.Bus, bots []platforms.Platform, o Options) *Hub {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	h := &Hub{
		db: db, facts: &facts.Facts{Stored: db}, desk: desk, bus: b, log: o.Log, opts: o, began: time.Now(),
		instances: make(map[relay.InstanceID]*instance),
	}
	h.tasks = background.New(&h.counters, h.log)
	h.hosted.set(bots)
	h.opts.Session.Log = o.Log
	h.opts.Session.Count = h.Count
	return h
}

// Run runs the platforms and the housekeeping until ctx ends, and returns nil then. A platform that gives up (a
// dead credential) ends alone; its status says why. A failed database ends Run with its error.
func (h *Hub) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unsubscribe := h.bus.Subscribe(h.note)
	defer unsubscribe()

	if err := h.openCapabilities(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	if err := h.showCommands(ctx, ""); err != nil {
		h.log.Warn("commands not shown; the next hello tries again", "err", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer h.judges.end()
	h.judges.begin(func(c relay.Chat) { wg.Go(func() { h.judgeChat(ctx, c) }) })
	if err := h.resumeJudging(ctx); err != nil && ctx.Err() == nil {
		cancel(err)
		return err
	}
	if err := h.resumePrompts(ctx); err != nil && ctx.Err() == nil {
		cancel(err)
		return err
	}
	defer h.hosted.end() // before the wait: nothing may join it
	h.hosted.begin(h.starts(ctx, &wg))
	wg.Go(func() { h.tasks.Run(ctx) })
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

func (h *Hub) runPlatform(ctx context.Context, p platforms.Platform) {
	log := h.log.With("bot", p.Bot().String())
	log.Info("bot started")
	err := p.Run(ctx, &inbox{hub: h, bot: p.Bot()})
	switch {
	case err == nil:
		log.Info("bot stopped")
	case errors.Is(err, relay.ErrBadCredentials):
		log.Error("bot stopped: put a valid token in place and reload", "err", err)
	default:
		log.Error("bot stopped", "err", err)
	}
}

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
	case bus.Interrupt:
		h.interruptLocal(n)
	case bus.Revoked:
		h.endGateway(n.Gateway)
		h.tasks.Put(background.Task{
			GivenUp: count.CommandsLeft, Until: time.Now().Add(background.Life), Harmless: true,
			Do: func(ctx context.Context) error { return h.showCommands(ctx, "") },
		})
	}
}

// Farewell waits until every background task is done; see background.Queue.Farewell. It is called while the hub runs, when no session is
// left.
func (h *Hub) Farewell(hurry context.Context) { h.tasks.Farewell(hurry) }

// Counters are totals since the start, by name.
func (h *Hub) Counters() map[string]uint64 { return h.counters.Snapshot() }

// Count adds one to a counter, for parts that have no totals of their own.
func (h *Hub) Count(c count.Counter) { h.counters.Add(c, 1) }

// Decisions are the newest verdicts, oldest first: at most maxDecisions.
func (h *Hub) Decisions() []gate.Decision { return h.decisions.list() }

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
