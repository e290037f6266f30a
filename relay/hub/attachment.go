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
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/outbound"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

// Refused is why Serve did not accept a connection, in words that the gateway may read. The close code is 1013.
type Refused struct{ Reason string }

func (e *Refused) Error() string { return "refused: " + e.Reason }

// maxIdentities is how many identities a session remembers from hellos. A gateway serves a bot or two of each network.
const maxIdentities = 64

// recordWithin bounds a write that must still happen after a session's own time ran out.
const recordWithin = 5 * time.Second

// attachment is the hub's half of one session: its handler, and what the hub knows about it.
type attachment struct {
	// Set once, by newAttachment and Serve.
	hub             *Hub
	outbound.Caller // carries its actions out
	session         *session.Session
	peer            session.Peer
	pump            *delivery.Pump
	since           time.Time     // when it came
	newer           chan struct{} // closed once the gateway is known to be newer than those of June 2026
	isNewer         atomic.Bool   // newer is closed, or just about to be
	fetches         atomic.Bool   // the gateway fetches files: it has shown that
	active          atomic.Int64  // when the gateway last acknowledged or requested something, in nanoseconds since 1970
	oneByOne        atomic.Bool   // the gateway acknowledges entries one by one, when it has finished them; see wire.Hello
	old             atomic.Bool   // the gateway acknowledged an event with files, and had fetched none

	// revoked: the credential is dead. Actions that have not begun are declined.
	revoked atomic.Bool

	epoch  uint64 // guarded by Hub.mu: the hello epoch that began with its first hello; 0 before that
	silent bool   // guarded by sockets.mu: it has not said hello, and may stay

	mu         sync.Mutex    // guards the fields below
	identities []relay.Bot   // said in hellos, in order
	told       int           // how many of them have received their descriptor
	unfronted  []relay.Bot   // bots whose entries the pump has passed over, each once
	offered    []store.About // in flight with files, while it is not known whether it fetches
	loud       *time.Timer   // makes the pump look at the entries that wait for the end of quiet hours; nil: none do
}

var _ session.Handler = (*attachment)(nil)

// newAttachment makes the attachment of a session that does not run yet.
func (h *Hub) newAttachment(conn *session.Conn, peer session.Peer) *attachment {
	s := &attachment{hub: h, peer: peer, since: time.Now(), newer: make(chan struct{})}
	s.Caller = h.out.Caller(s, peer.Gateway, peer.Tenant, peer.Instance)
	o := h.opts.Session
	o.OverLimit = func() { h.sockets.bar(s.peer.Gateway) }
	s.session = session.New(conn, peer, s, o)
	s.pump = h.lane(peer.Instance).NewPump(delivery.Outlet{
		Push: s.push, Settle: s.settle, Join: s.join, Where: s.where, Takes: s.takes, Answers: s.answers, Types: s.isNewer.Load, Taken: s.taken,
	})
	return s
}

// push queues one delivery; see delivery.Outlet.
func (s *attachment) push(ctx context.Context, e store.Entry, left func(written bool)) error {
	if e.Forward != nil {
		e.Frame = e.Forward.Frame
	}
	if s.hub.opts.Programs != nil && e.About.Bot.IsProgram() {
		s.hub.opts.Programs.Pushed(s.peer.Instance, e.About)
	}
	err := s.session.Push(ctx, wire.Packed{Line: e.Frame, Buffer: e.Buffer}, left)
	if errors.Is(err, session.ErrUnencodable) {
		return fmt.Errorf("%w: %w", delivery.ErrPoison, err)
	}
	return err
}

// Serve runs the session of an authenticated connection until it ends, and returns why. When ctx ends (with cause
// delivery.ErrShutdown), running actions finish first, unless hurry ends too. On a *Refused the caller closes conn.
func (h *Hub) Serve(ctx, hurry context.Context, conn *session.Conn, peer *session.Peer) error {
	s, err := h.admit(ctx, conn, peer)
	if err != nil {
		return err
	}
	defer h.leave(s)
	return s.session.Run(ctx, hurry)
}

// admit makes the attachment of a connection, or returns why it is refused. (This is not part of Serve, which is on the
// stack of every idle session.)
func (h *Hub) admit(ctx context.Context, conn *session.Conn, peer *session.Peer) (*attachment, error) {
	s := h.newAttachment(conn, *peer)
	if err := h.enter(s); err != nil {
		return nil, err
	}
	// The session is registered before the gateway's record is read: so a revocation either finds the session or is
	// found here.
	g, err := store.Only(h.db.Gateways(ctx, peer.Gateway))
	if err != nil {
		h.leave(s)
		return nil, &Refused{"unavailable"}
	}
	if g.Revoked {
		s.revoke()
	}
	if g.Newer {
		s.markNewer()
	}
	s.fetches.Store(g.Fetches)
	s.old.Store(g.TooOld)
	return s, nil
}

// enter registers a session. It serves its instance only from its first hello on.
func (h *Hub) enter(s *attachment) error {
	surplus, ok := h.sockets.enter(s)
	if !ok {
		h.counters.Add(count.TooManyConnections, 1)
		return &Refused{"too many connections"}
	}
	if surplus != nil {
		h.counters.Add(count.TooManySilent, 1)
		surplus.session.End(websocket.StatusPolicyViolation, "no hello")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.instanceLocked(s.peer.Instance).foughtOver() {
		h.sockets.leave(s)
		return &Refused{fought}
	}
	return nil
}

// leave forgets a session that ended. It frees the instance too: after a hello that failed no pump did.
func (h *Hub) leave(s *attachment) {
	h.sockets.leave(s)
	h.vacate(s)
}

// instance is what the hub remembers about one instance while the process runs. Hub.mu guards it.
type instance struct {
	lane      *delivery.Lane
	serving   *attachment // the session that serves it; nil: none
	epoch     uint64      // the hello epoch: how often a session's first hello took it over
	takeovers takeovers
}

// instanceLocked returns the record of i. h.mu must be held.
func (h *Hub) instanceLocked(i relay.InstanceID) *instance {
	a := h.instances[i]
	if a == nil {
		a = &instance{lane: delivery.NewLane(i, h.db.Lanes, h.opts.Delivery)}
		h.instances[i] = a
	}
	return a
}

// Deliver implements inbound.Gateways.
func (h *Hub) Deliver(i relay.InstanceID, e store.Entry) {
	h.lane(i).Appended(e)
	h.bus.Publish(bus.LaneGrew{Instance: i, Seq: e.Buffer.Seq})
}

// Interrupt implements inbound.Gateways. It may come from another instance's gateway too.
func (h *Hub) Interrupt(i relay.InstanceID, key relay.SessionKey, chat relay.ChatID) {
	h.bus.Publish(bus.Interrupt{Instance: i, Session: key, Chat: chat})
}

// lane returns the instance's lane.
func (h *Hub) lane(i relay.InstanceID) *delivery.Lane {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.instanceLocked(i).lane
}

// serving returns the session that serves the instance; nil: none.
func (h *Hub) serving(i relay.InstanceID) *attachment {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.instanceLocked(i).serving
}

// vacate frees the instance and reports whether s served it.
func (h *Hub) vacate(s *attachment) (held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.instanceLocked(s.peer.Instance)
	if held = a.serving == s; held {
		a.serving = nil
	}
	return held
}

// fought is why an instance that is served cannot be taken over.
const fought = "copied credential"

// foughtOver reports whether the instance stays with its present session, because its credential counts as copied.
func (a *instance) foughtOver() bool { return a.serving != nil && a.takeovers.copied(time.Now()) }

// takeOver makes s the session of its instance, and ends the one it replaces.
func (h *Hub) takeOver(s *attachment) error {
	h.mu.Lock()
	a := h.instanceLocked(s.peer.Instance)
	if a.foughtOver() { // since s entered
		h.mu.Unlock()
		return &session.Closed{Code: websocket.StatusTryAgainLater, Reason: fought}
	}
	old := a.serving
	a.serving = s
	a.epoch++
	s.epoch = a.epoch
	copied := old != nil && a.takeovers.add(time.Now(), s.peer.Addr)
	h.mu.Unlock()
	if old == nil {
		return nil
	}
	h.counters.Add(count.Takeover, 1)
	if copied {
		h.log.Error("credential used from two places at once; rotate it", "gateway", s.peer.Gateway, "instance", s.peer.Instance)
	}
	old.session.End(session.CodeReplaced, "replaced")
	return nil
}

// Hello answers with the descriptor of the identity, takes the instance over with the session's first hello, ends a
// flip (see GoingIdle), and makes the pump look again at entries of the bots that the identity stands for.
func (s *attachment) Hello(ctx context.Context, f wire.Hello) error {
	h := s.hub
	if f.OneByOne {
		s.oneByOne.Store(true)
	}
	first := s.say(relay.Bot{Platform: f.Platform, ID: f.BotID})
	if first {
		if err := s.current(ctx); err != nil {
			return err
		}
		h.sockets.speaks(s)
		if err := h.takeOver(s); err != nil {
			return err
		}
	}
	if err := s.wake(ctx, first); err != nil {
		return fmt.Errorf("wake %s: %w", s.peer.Instance, err)
	}
	if err := h.out.Commands.Learn(ctx, s.peer.Instance, f.Platform, f.Manifest); err != nil { // not a reason to keep messages from the gateway
		h.log.Warn("commands not learned; the next hello tries again", "instance", s.peer.Instance, "err", err)
	}
	if !first || f.Manifest != nil { // gateways of June say one hello and send no manifest
		s.recordNewer(ctx)
	}
	h.log.Info("gateway connected", "gateway", s.peer.Gateway, "instance", s.peer.Instance, "platform", f.Platform)
	s.session.Tell(wire.Descriptor{Descriptor: h.describe(f)})
	if s.tell() {
		s.pump.Anew()
	}
	s.pump.Resume()
	return nil
}

// current returns an error if the secret with which the session was opened has been retired since: then a socket that
// said nothing so far must not take over from the one with the new secret.
func (s *attachment) current(ctx context.Context) error {
	if s.peer.SecretID == "" {
		return nil // opened without a secret, in tests
	}
	g, err := store.Only(s.hub.db.Gateways(ctx, s.peer.Gateway))
	if err != nil {
		return fmt.Errorf("secret of %s: %w", s.peer.Gateway, err)
	}
	if !slices.ContainsFunc(g.Secrets, func(sec store.GatewaySecret) bool { return sec.ID == s.peer.SecretID }) {
		return &session.Closed{Code: session.CodeUnauthorized, Reason: "unauthorized"}
	}
	return nil
}

// wake ends the instance's sleep, and notes with the session's first hello when the gateway came.
func (s *attachment) wake(ctx context.Context, first bool) error {
	if first {
		return s.hub.db.UpdateGateway(ctx, nil, s.peer.Gateway, store.CameOrWent(time.Now(), true))
	}
	return s.hub.db.UpdateInstance(ctx, nil, s.peer.Instance, func(i *store.Instance) error {
		i.Asleep = false
		return nil
	})
}

// describe returns the descriptor for one hello.
func (h *Hub) describe(f wire.Hello) relay.Descriptor {
	if f.Platform == relay.RelayPlatform {
		var ds []relay.Descriptor
		for _, p := range h.Bots() {
			if !p.ID().IsProgram() { // every session serves it
				ds = append(ds, platforms.Describe(p))
			}
		}
		return relay.LeastCommon(ds)
	}
	if ps := h.hosted.Fronted([]relay.Bot{{Platform: f.Platform, ID: f.BotID}}); len(ps) > 0 {
		return platforms.Describe(ps[0])
	}
	return relay.Bare(f.Platform)
}

// Pump empties the instance's lane into the session, until the session begins to end. Then the instance is free, even
// while the session's last actions run on.
func (s *attachment) Pump(ctx context.Context, run func(func()), over func(error)) {
	s.letStart(ctx)
	s.pump.Start(ctx, run, func(err error) {
		s.hush()
		s.free(ctx)
		over(err)
	})
}

// free frees the instance, if s still serves it, and records when its gateway was last there.
func (s *attachment) free(ctx context.Context) {
	h := s.hub
	if !h.vacate(s) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	if err := h.db.UpdateGateway(ctx, nil, s.peer.Gateway, store.CameOrWent(time.Now(), false)); err != nil && !errors.Is(err, store.ErrNotFound) {
		h.log.Warn("last-seen time not recorded", "instance", s.peer.Instance, "err", err)
	}
}

// Ack takes an acknowledged entry out of the lane. counted is false if it was not in flight.
func (s *attachment) Ack(ctx context.Context, id relay.BufferID) (counted bool, err error) {
	return s.pump.Ack(ctx, id)
}

// answers asks the gateway for a sign of life. It returns false for a gateway that acknowledges each entry when it has
// finished it: there a sign of life says nothing about the entries that are not finished.
func (s *attachment) answers(ctx context.Context) bool {
	return !s.oneByOne.Load() && s.session.Answers(ctx)
}

// taken notes that the gateway has acknowledged an event: for the verdicts, for what programs told people, for a
// program's receipt and for the counters. It also judges whether the gateway fetches files.
func (s *attachment) taken(ctx context.Context, of store.About) {
	s.hub.decisions.Taken(s.peer.Instance, of, time.Now())
	s.hub.in.Told.Taken(s.peer.Instance, of)
	s.active.Store(time.Now().UnixNano())
	if s.hub.opts.Programs != nil && of.Bot.IsProgram() {
		s.hub.opts.Programs.Taken(s.peer.Instance, of)
	}
	s.hub.counters.Add(count.Ack, 1)
	if took := time.Since(of.At); !of.At.IsZero() && took > 0 { // a network's clock may be ahead
		s.hub.counters.Add(count.AckDelay, uint64(took/time.Millisecond))
	}
	s.unfetched(ctx, of)
}

// GoingIdle flips the instance to buffered-only: pushing stops first, then the flip is stored.
func (s *attachment) GoingIdle(ctx context.Context) error {
	err := s.fallAsleep(ctx)
	if ctx.Err() == nil {
		return err
	}
	// The gateway closed the socket before this was done. It said that it goes idle, so its instance sleeps all the
	// same.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	return s.fallAsleep(late)
}

// fallAsleep stops the pushing, and stores that the instance sleeps, unless a newer session has taken it over.
func (s *attachment) fallAsleep(ctx context.Context) error {
	if err := s.pump.Flip(ctx); err != nil {
		return err
	}
	slept := false
	if err := s.hub.db.UpdateInstance(ctx, nil, s.peer.Instance, func(i *store.Instance) error {
		// Asked here, where a newer session's hello cannot come in between.
		slept = s.isNewest()
		i.Asleep = i.Asleep || slept
		return nil
	}); err != nil {
		return fmt.Errorf("flip %s: %w", s.peer.Instance, err)
	}
	if slept {
		s.hub.counters.Add(count.GoingIdle, 1)
	}
	return nil
}

// isNewest reports whether s said the newest first hello of its instance, though its session may have ended.
func (s *attachment) isNewest() bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.epoch > 0 && s.epoch == s.hub.instanceLocked(s.peer.Instance).epoch
}

// Revoked implements outbound.Attachment.
func (s *attachment) Revoked() bool { return s.revoked.Load() }

// Heard implements outbound.Attachment: it tells the pump.
func (s *attachment) Heard(c delivery.Conversation, sign delivery.Sign) {
	s.active.Store(time.Now().UnixNano())
	s.pump.Heard(c, sign)
}

// Asks implements outbound.Attachment: it notes what r shows about the gateway's age.
func (s *attachment) Asks(ctx context.Context, r relay.Request) {
	if newerThanJune(r) {
		s.recordNewer(ctx)
	}
	if notOfJune(r.Action) {
		s.fetcher(ctx)
	}
}

// Unknown implements session.Handler: a gateway with an op that is unknown here is so new that it fetches files.
func (s *attachment) Unknown(ctx context.Context) { s.fetcher(ctx) }

// Interrupt passes a gateway's request to stop a run on to the instance of its tenant that runs the key.
func (s *attachment) Interrupt(_ context.Context, key relay.SessionKey, _ *string) {
	i, chat, ok := s.hub.in.RunOf(s.peer.Tenant, s.peer.Instance, key)
	if !ok {
		s.hub.counters.Add(count.InterruptUnknown, 1)
		return
	}
	s.hub.Interrupt(i, key, chat)
}

// revoke ends the session of a dead credential. It does not block.
func (s *attachment) revoke() {
	s.revoked.Store(true)
	s.session.End(session.CodeUnauthorized, "unauthorized")
}

// endGateway closes every session opened with the gateway's credential.
func (h *Hub) endGateway(g relay.GatewayID) {
	for _, s := range h.sockets.of(g) {
		s.revoke()
	}
}
