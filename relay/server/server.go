// Package server is the listener, the table of routes, the upgrade of a gateway's socket, health, and the order in
// which everything starts and stops. It decides who is let in, and nothing about later frames. relay/server/routes
// brings a request to its handler, and relay/api serves other programs.
//
// Invariants:
//
//  1. 4401 says "this credential is dead" and is sent for nothing else: June and August gateways
//     switch their relay off for good when they read it.
//  2. No session begins before its credential was verified.
//  3. Nothing is accepted after the stop began, and Run returns only after everything it started
//     has ended.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/hub"
	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

const (
	// patienceTime is how long a stop lets an action wait for its turn or the end of a pause: meanwhile no gateway is
	// served, and in a cluster nobody else may lead.
	patienceTime = 5 * time.Second
	// plainRequests bounds how long a stop waits for requests that are no sessions.
	plainRequests = 2 * time.Second
)

// Options are the server's settings; the zero value means the defaults.
type Options struct {
	Log *slog.Logger // nil means discard
	// TrustedProxies are the peers whose X-Forwarded headers count.
	TrustedProxies routes.Proxies
	// PublicURL is the address that gateways dial if a proxy stands in front; empty: not set.
	PublicURL string
	// Routes are the routes besides the server's own.
	Routes []routes.Route
	// Hooks finds the route at the path of a bot that its network calls; nil: no network calls.
	Hooks func(path string) (routes.Route, bool)
	// Failures counts failed credentials per address. It is shared with the API; nil means a count of its own.
	Failures *limits.Failures
	Now      func() time.Time // the clock for that count; nil means time.Now
	// Run is the id that /healthz shows, so that a client of a public address knows which server it reached; empty:
	// none. It is no secret.
	Run string
	// Leads reports whether this process may still serve gateways; it is asked before one is let in. Nil: it always
	// may.
	Leads func() bool
	// Front stands before all routes, for example to serve requests that other nodes pass on; nil: nothing does.
	Front func(own http.Handler) http.Handler
}

// Server is the front door. Make one with New, run it once.
type Server struct {
	// Set once, by New.
	hub  *hub.Hub
	auth *token.Authority
	o    Options

	mu       sync.Mutex     // guards stopping, and sessions.Add against it
	stopping bool           // no upgrade is begun any more
	sessions sync.WaitGroup // upgrades under way and the sessions they became
}

// New makes a server. Nothing listens before Run.
func New(h *hub.Hub, auth *token.Authority, o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Failures = cmp.Or(o.Failures, new(limits.Failures))
	return &Server{hub: h, auth: auth, o: o}
}

// Run serves at d, and runs the hub, until ctx ends. Then it stops in order: waiting actions are answered soon, and
// actions at their network come to their end, unless hurry ends. A failed database or door ends it with its error. It
// closes d.
func (s *Server) Run(ctx, hurry context.Context, d door.Door) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Sessions and hub outlive ctx, because the stop is in order and not at once.
	hubCtx, stopHub := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHub()
	sessions, endSessions := context.WithCancelCause(hubCtx)
	defer endSessions(nil)
	patience, lose := context.WithCancel(hurry)
	defer lose()
	hurry = platforms.Patient(hurry, patience)

	h := s.handler(s.table(sessions, hurry))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Serve(h, func() { s.hub.Count(count.CallerRefused) }); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("serve: %w", err))
		}
	})
	wg.Go(func() {
		if err := s.hub.Run(hubCtx); err != nil {
			cancel(err)
		}
	})

	<-ctx.Done()
	cause := context.Cause(ctx)
	level := slog.LevelInfo
	if !errors.Is(cause, context.Canceled) {
		level = slog.LevelError // nobody asked for this stop
	}
	s.o.Log.Log(ctx, level, "stopping", "reason", cause)
	// No new sessions; running actions finish and sessions close; background tasks end; platforms stop.
	s.refuse()
	endSessions(delivery.ErrShutdown)
	// With hurry the hub ends at once: otherwise waiting answers would be sent after another process has begun to send.
	defer context.AfterFunc(hurry, stopHub)()
	defer time.AfterFunc(patienceTime, lose).Stop()
	plain, giveUp := context.WithTimeout(context.WithoutCancel(ctx), plainRequests)
	defer giveUp()
	_ = d.Shutdown(plain) // lets nothing in any more
	s.sessions.Wait()
	_ = d.Close()
	if errors.Is(cause, context.Canceled) { // otherwise the hub may have stopped running
		s.hub.Farewell(hurry)
	}
	stopHub()
	wg.Wait()
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// handler returns the server's handler: the table bounds each request except for its header, and the session bounds its
// socket.
func (s *Server) handler(table http.Handler) http.Handler {
	if s.o.Front != nil {
		table = s.o.Front(table)
	}
	return routes.Loud(table, s.o.Log)
}

// refuse refuses upgrades from now on.
func (s *Server) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
}

// enter counts an upgrade, unless upgrades are refused, or this process may no longer serve gateways.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || s.o.Leads != nil && !s.o.Leads() {
		return false
	}
	s.sessions.Add(1)
	return true
}

// table returns the routes of this program.
func (s *Server) table(ctx, hurry context.Context) *routes.Table {
	get := []string{http.MethodGet, http.MethodHead}
	d := routes.New(s.o.TrustedProxies, append([]routes.Route{
		{Path: "/relay", Methods: get, Policy: routes.Policy{Sockets: true}, Serve: func(w http.ResponseWriter, r *http.Request, from netip.Addr) {
			s.upgrade(ctx, hurry, w, r, from)
		}},
		{Path: "/healthz", Methods: get, Policy: routes.Policy{Browsers: true}, Serve: func(w http.ResponseWriter, _ *http.Request, _ netip.Addr) {
			routes.Answer(w, http.StatusOK, health{OK: true, Run: s.o.Run})
		}},
		{Path: "/readyz", Methods: get, Policy: routes.Policy{Browsers: true}, Serve: s.ready},
	}, s.o.Routes...)...)
	if s.o.Hooks != nil {
		d.Also(s.o.Hooks)
	}
	return d
}

// health is the body of /healthz.
type health struct {
	OK  bool   `json:"ok"`
	Run string `json:"run,omitempty"`
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request, _ netip.Addr) {
	ready := s.hub.Ready()
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	routes.Answer(w, status, map[string]bool{"ready": ready})
}
