package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

// Refused is why Serve did not take a connection, in words the gateway may read. Its close code
// is 1013: trying again later is right.
type Refused struct{ Reason string }

func (e *Refused) Error() string { return "refused: " + e.Reason }

// maxIdentities bounds what hellos can make a session remember: a gateway fronts a bot or two of
// each network.
const maxIdentities = 64

// seat is one live session and what the hub knows about it.
type seat struct {
	// Set once, by Serve.
	session *session.Session
	peer    session.Peer
	pump    *delivery.Pump
	newer   chan struct{} // closed once the gateway is known to be younger than those of June 2026

	// revoked: the credential is dead. What the gateway asked for and what has not begun is declined.
	revoked atomic.Bool

	sitting uint64 // guarded by Hub.mu: which one of the instance this is; 0 before the first hello

	mu         sync.Mutex                // guards the fields below
	identities []relay.Bot               // said in hellos, in order
	told       int                       // how many of them have their descriptor
	unfronted  []relay.Bot               // what the pump passed over since, each once
	flying     map[relay.BufferID]flight // pushed and not acknowledged
}

// flight is the event an entry in flight carries.
type flight struct {
	bot   relay.Bot
	event relay.EventID
}

func newSeat(peer session.Peer) *seat {
	return &seat{peer: peer, newer: make(chan struct{}), flying: make(map[relay.BufferID]flight)}
}

// land forgets an entry in flight and returns what it carried.
func (s *seat) land(id relay.BufferID) (flight, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.flying[id]
	delete(s.flying, id)
	return f, ok
}

func (s *seat) launch(e store.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying[e.Buffer] = flight{e.About.Bot, e.About.ID}
}

// Serve runs the session of an authenticated connection until it ends, and returns why. When ctx
// ends (with cause delivery.ErrShutdown), running actions finish first, unless hurry ends too. A
// *Refused means that the connection was not taken; the caller closes conn then.
func (h *Hub) Serve(ctx, hurry context.Context, conn *session.Conn, peer session.Peer) error {
	s := newSeat(peer)
	o := h.opts.Session
	o.Room = h.crowds.room(peer.Gateway)
	o.OverLimit = func() { h.crowds.bar(peer.Gateway) }
	s.session = session.New(conn, peer, h, o)
	s.pump = h.lane(peer.Instance).NewPump(func(ctx context.Context, e store.Entry) error {
		s.launch(e)
		if e.Event != nil { // from before schema 4 of the store
			e.Frame, _ = wire.Pack(*e.Event)
		}
		err := s.session.Push(ctx, wire.Packed{Line: e.Frame, Buffer: e.Buffer})
		if errors.Is(err, session.ErrUnencodable) {
			return fmt.Errorf("%w: %w", delivery.ErrPoison, err)
		}
		return err
	}, s.fronts)
	if err := h.enter(ctx, s); err != nil {
		return err
	}
	defer h.leave(s)
	// Registered first, looked second: a revocation either finds the session or is found here.
	g, err := h.db.Gateway(ctx, peer.Gateway)
	if err != nil {
		return &Refused{"unavailable"}
	}
	if g.Revoked {
		s.revoke()
	}
	if g.Newer {
		s.grow()
	}
	return s.session.Run(ctx, hurry)
}

// TurnAway is how long a gateway must wait before its next connection is worth an upgrade; 0: it
// need not.
func (h *Hub) TurnAway(g relay.GatewayID) time.Duration {
	wait := h.crowds.turnAway(g)
	if wait > 0 {
		h.counters.add("too_many_connections", 1)
	}
	return wait
}

// enter registers a session. It takes the instance's seat only with its first hello.
func (h *Hub) enter(ctx context.Context, s *seat) error {
	surplus, ok := h.crowds.enter(s)
	if !ok {
		h.counters.add("too_many_connections", 1)
		h.crowds.hold(ctx, s.peer.Gateway)
		return &Refused{"too many connections"}
	}
	if surplus != nil {
		h.counters.add("too_many_silent", 1)
		surplus.session.End(websocket.StatusPolicyViolation, "no hello")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.foughtOverLocked(s.peer.Instance) {
		h.crowds.leave(s)
		return &Refused{fought}
	}
	h.sessions[s.session] = s
	return nil
}

// leave forgets a session that ended, also one whose hello failed after it had taken the seat, so that
// no pump gave it back.
func (h *Hub) leave(s *seat) {
	h.crowds.leave(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, s.session)
	h.vacateLocked(s)
}

// vacateLocked frees the instance's seat and reports whether s held it. h.mu must be held.
func (h *Hub) vacateLocked(s *seat) (held bool) {
	if held = h.seats[s.peer.Instance] == s; held {
		delete(h.seats, s.peer.Instance)
	}
	return held
}

// fought is why a seat that is held cannot be taken over.
const fought = "copied credential"

// foughtOverLocked reports whether the instance's seat stays with who holds it, because the credential
// counts as copied. h.mu must be held.
func (h *Hub) foughtOverLocked(i relay.InstanceID) bool {
	t := h.takeover[i]
	return t != nil && t.copied(time.Now()) && h.seats[i] != nil
}

// sit makes s the session of its instance, and ends the one it replaces.
func (h *Hub) sit(s *seat) error {
	h.mu.Lock()
	if h.foughtOverLocked(s.peer.Instance) { // since s entered
		h.mu.Unlock()
		return &session.Closed{Code: websocket.StatusTryAgainLater, Reason: fought}
	}
	old := h.seats[s.peer.Instance]
	h.seats[s.peer.Instance] = s
	h.sittings[s.peer.Instance]++
	s.sitting = h.sittings[s.peer.Instance]
	copied := false
	if old != nil {
		t := h.takeover[s.peer.Instance]
		if t == nil {
			t = new(takeovers)
			h.takeover[s.peer.Instance] = t
		}
		copied = t.add(time.Now(), s.peer.Addr)
	}
	h.mu.Unlock()
	if old == nil {
		return nil
	}
	h.counters.add("takeover", 1)
	if copied {
		h.log.Error("credential used from two places at once; rotate it", keyGateway, s.peer.Gateway, keyInstance, s.peer.Instance)
	}
	old.session.End(session.CodeReplaced, "replaced")
	return nil
}

// Hello answers with the descriptor of the identity, takes the instance's seat with the first
// one, and ends a flip.
func (h *Hub) Hello(ctx context.Context, ss *session.Session, f wire.Hello) (relay.Descriptor, error) {
	s := h.seatOf(ss)
	first := s.say(relay.Bot{Platform: f.Platform, ID: f.BotID})
	if first {
		if err := h.current(ctx, s); err != nil {
			return relay.Descriptor{}, err
		}
		h.crowds.speaks(s)
		if err := h.sit(s); err != nil {
			return relay.Descriptor{}, err
		}
	}
	if err := h.wake(ctx, s, first); err != nil {
		return relay.Descriptor{}, fmt.Errorf("wake %s: %w", s.peer.Instance, err)
	}
	if err := h.learnCommands(ctx, s.peer.Instance, f); err != nil { // no reason to keep its messages from it
		h.log.Warn("commands not learned; the next hello tries again", keyInstance, s.peer.Instance, keyErr, err)
	}
	if helloOfNow(f, first) {
		h.isNewer(ctx, s)
	}
	h.log.Info("gateway connected", keyGateway, s.peer.Gateway, keyInstance, s.peer.Instance, "platform", f.Platform)
	return h.describe(f), nil
}

// current is nil unless the secret that the session was opened with has been retired since: a socket
// that waited for that without a word must not take the seat from who has the new one.
func (h *Hub) current(ctx context.Context, s *seat) error {
	if s.peer.SecretID == "" {
		return nil // opened without a secret, in tests
	}
	g, err := h.db.Gateway(ctx, s.peer.Gateway)
	if err != nil {
		return fmt.Errorf("secret of %s: %w", s.peer.Gateway, err)
	}
	if !slices.ContainsFunc(g.Secrets, func(sec store.GatewaySecret) bool { return sec.ID == s.peer.SecretID }) {
		return &session.Closed{Code: session.CodeUnauthorized, Reason: "unauthorized"}
	}
	return nil
}

// wake ends the instance's sleep. Only the first hello of a session is a coming worth a write.
func (h *Hub) wake(ctx context.Context, s *seat, first bool) error {
	if first {
		return h.db.UpdateGateway(ctx, s.peer.Gateway, store.CameOrWent(time.Now(), true))
	}
	return h.db.UpdateInstance(ctx, s.peer.Instance, func(i *store.Instance) error {
		i.Asleep = false
		return nil
	})
}

// Resume ends the flip of a going_idle on this socket, behind the descriptor of a hello, and has the pump
// look again at what the identity of that hello is for.
func (h *Hub) Resume(ss *session.Session) {
	s := h.seatOf(ss)
	if s.tell() {
		s.pump.Fronted()
	}
	s.pump.Resume()
}

// describe is the descriptor for one hello.
func (h *Hub) describe(f wire.Hello) relay.Descriptor {
	if f.Platform == relay.RelayPlatform {
		var ds []relay.Descriptor
		for _, p := range h.bots {
			ds = append(ds, platforms.Describe(p))
		}
		return relay.LeastCommon(ds)
	}
	if ps := h.fronted([]relay.Bot{{Platform: f.Platform, ID: f.BotID}}); len(ps) > 0 {
		return platforms.Describe(ps[0])
	}
	return relay.Bare(f.Platform)
}

// Pump empties the instance's lane into the session. It ends the moment the session begins to
// end, and the seat is free then, even while the session's last actions run on.
func (h *Hub) Pump(ctx context.Context, ss *session.Session) error {
	s := h.seatOf(ss)
	defer h.rise(ctx, s)
	h.letStart(ctx, s)
	return s.pump.Run(ctx)
}

// rise frees the instance's seat, if s still holds it.
func (h *Hub) rise(ctx context.Context, s *seat) {
	h.mu.Lock()
	held := h.vacateLocked(s)
	h.mu.Unlock()
	if !held {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	if err := h.db.UpdateGateway(ctx, s.peer.Gateway, store.CameOrWent(time.Now(), false)); err != nil && !errors.Is(err, store.ErrNotFound) {
		h.log.Warn("last-seen time not recorded", keyInstance, s.peer.Instance, keyErr, err)
	}
}

// Ack takes an acknowledged entry out of the lane. counted is false if it was not in flight.
func (h *Hub) Ack(ctx context.Context, ss *session.Session, id relay.BufferID) (counted bool, err error) {
	s := h.seatOf(ss)
	if counted, err = s.pump.Ack(ctx, id); err != nil || !counted {
		return false, err
	}
	h.counters.add("ack", 1)
	if f, ok := s.land(id); ok {
		h.settle(ctx, s, f.bot, f.event)
	}
	return true, nil
}

// GoingIdle flips the instance to buffered-only: pushing stops first, then the flip is stored.
func (h *Hub) GoingIdle(ctx context.Context, ss *session.Session) error {
	s := h.seatOf(ss)
	err := h.fallAsleep(ctx, s)
	if ctx.Err() == nil {
		return err
	}
	// The gateway has said that it goes, and went before we were done: it sleeps all the same.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	return h.fallAsleep(late, s)
}

func (h *Hub) fallAsleep(ctx context.Context, s *seat) error {
	if err := s.pump.Flip(ctx); err != nil {
		return err
	}
	slept := false
	if err := h.db.UpdateInstance(ctx, s.peer.Instance, func(i *store.Instance) error {
		// Asked here, where a newer session's hello cannot come in between.
		slept = h.satLast(s)
		i.Asleep = i.Asleep || slept
		return nil
	}); err != nil {
		return fmt.Errorf("flip %s: %w", s.peer.Instance, err)
	}
	if slept {
		h.counters.add("going_idle", 1)
	}
	return nil
}

// revoke ends the session of a dead credential. It does not block.
func (s *seat) revoke() {
	s.revoked.Store(true)
	s.session.End(session.CodeUnauthorized, "unauthorized")
}

// endGateway closes every session opened with the gateway's credential.
func (h *Hub) endGateway(g relay.GatewayID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sessions {
		if s.peer.Gateway == g {
			s.revoke()
		}
	}
}

// seatOf is the seat of a session that Serve runs.
func (h *Hub) seatOf(ss *session.Session) *seat {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[ss]
}

// satLast reports whether s is the newest session of its instance, though it may have ended.
func (h *Hub) satLast(s *seat) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.sitting > 0 && s.sitting == h.sittings[s.peer.Instance]
}
