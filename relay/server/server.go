// Package server is the connector's front door: the listener, the callers' addresses, the upgrade
// of a gateway's socket, health, and the order in which everything starts and stops. It decides
// who is let in, and nothing about what is said afterwards (relay/session and relay/hub do). The
// routes that other programs call are relay/api's.
//
// Invariants:
//
//  1. 4401 says "this credential is dead" and is sent for nothing else: June and August gateways
//     switch their relay off for good when they read it.
//  2. No session is taken before its credential was verified.
//  3. Nothing is accepted after the stop began, and Run returns only after everything it started
//     has ended.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/api"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/hub"
	"github.com/hermes-connector/hermes-connector/relay/limit"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

const (
	// plainRequests bounds how long a stop waits for requests that are no sessions.
	plainRequests = 2 * time.Second
	// bodyTime is how long a request may take to come, also with a body that nobody wants.
	bodyTime = 20 * time.Second
	// readTime is how long the caller may take to read the answer.
	readTime = time.Minute
)

// Options are the server's settings; the zero value means the defaults.
type Options struct {
	Log *slog.Logger // nil means discard
	// TrustedProxies are the peers whose X-Forwarded-For counts.
	TrustedProxies []netip.Prefix
	// API answers all but the server's own routes; nil means that there are no others.
	API *api.API
	// Failures are the failed credentials per address, shared with the API; nil means a count of
	// its own.
	Failures *limit.Failures
	Now      func() time.Time // the clock they are counted by; nil means time.Now
}

// Server is the front door. Make one with New, run it once.
type Server struct {
	// Set once, by New.
	hub     *hub.Hub
	auth    *token.Authority
	log     *slog.Logger
	proxies []netip.Prefix
	api     *api.API // nil: none
	failed  *limit.Failures
	now     func() time.Time

	mu       sync.Mutex     // guards stopping, and sessions.Add against it
	stopping bool           // no upgrade is begun any more
	sessions sync.WaitGroup // upgrades under way and the sessions they became
}

// New makes a server. Nothing listens before Run.
func New(h *hub.Hub, auth *token.Authority, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Failures == nil {
		o.Failures = limit.NewFailures()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Server{hub: h, auth: auth, log: o.Log, proxies: o.TrustedProxies, api: o.API, failed: o.Failures, now: o.Now}
}

// Run serves on l, and runs the hub, until ctx ends; then it stops in order and returns nil.
// When hurry ends, the stop no longer waits for running actions. A failed database or listener
// ends Run with its error. l is closed when Run returns.
func (s *Server) Run(ctx, hurry context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Sessions and hub outlive ctx: the stop is in order, not at once.
	hubCtx, stopHub := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHub()
	sessions, endSessions := context.WithCancelCause(hubCtx)
	defer endSessions(nil)

	who := limit.NewCallers(l, func() { s.hub.Count(count.CallerEvicted) })
	srv := s.http(s.routes(sessions, hurry))
	who.Attach(srv, s.remote)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := srv.Serve(who); !errors.Is(err, http.ErrServerClosed) {
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
	// No new sessions; running actions finish and sessions close; errands end; platforms stop.
	s.refuse()
	endSessions(delivery.ErrShutdown)
	plain, giveUp := context.WithTimeout(context.WithoutCancel(ctx), plainRequests)
	defer giveUp()
	_ = srv.Shutdown(plain) // closes the listener first; does not know of sessions
	s.sessions.Wait()
	_ = srv.Close()
	if errors.Is(cause, context.Canceled) { // otherwise the hub may run no more
		s.hub.Farewell(hurry)
	}
	stopHub()
	wg.Wait()
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// http is the HTTP server. Its times are those of plain requests: the upgrade to a session takes them off.
// A connection serves one of them, so that the limits of connections are those of requests too.
func (s *Server) http(h http.Handler) *http.Server {
	srv := &http.Server{
		Handler:           s.loud(h),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       bodyTime,
		WriteTimeout:      readTime, // or who never reads the answers would hold a connection for ever
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	srv.SetKeepAlivesEnabled(false)
	return srv
}

// loud is h, whose panics are said: the server's own log has them among what strangers do wrong. The
// request's path stays out: it may be a credential.
func (s *Server) loud(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil || p == http.ErrAbortHandler {
				return
			}
			s.log.Error("a request ended in a panic", "panic", relay.PanicWords(p), "stack", string(debug.Stack()))
			panic(http.ErrAbortHandler)
		}()
		h.ServeHTTP(w, r)
	})
}

// refuse turns upgrades away from now on.
func (s *Server) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
}

// enter counts an upgrade in, unless the stop has come so far that nobody waits for it.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.sessions.Add(1)
	}
	return !s.stopping
}

// routes are matched exactly, as api.API does.
func (s *Server) routes(ctx, hurry context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.EscapedPath(); {
		case path == "/relay":
			only(w, r, http.MethodGet, func() { s.upgrade(ctx, hurry, w, r) })
		case upgrades(r): // whatever else is there (wire.md 2.1)
			api.Refuse(w, http.StatusBadRequest, "gateways dial /relay")
		case path == "/healthz":
			only(w, r, http.MethodGet, func() { api.Answer(w, http.StatusOK, map[string]bool{"ok": true}) })
		case path == "/readyz":
			only(w, r, http.MethodGet, func() { s.ready(w) })
		case s.api != nil:
			s.api.Serve(w, r, s.remote(r))
		default:
			api.Refuse(w, http.StatusNotFound, "not found")
		}
	})
}

// upgrades reports whether r asks for a WebSocket. Some proxies put a Connection: upgrade into every
// request, so that says nothing.
func upgrades(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

func (s *Server) ready(w http.ResponseWriter) {
	ready := s.hub.Ready()
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	api.Answer(w, status, map[string]bool{"ready": ready})
}

// only calls do for requests of the given method (and HEAD where GET is meant).
func only(w http.ResponseWriter, r *http.Request, method string, do func()) {
	if r.Method != method && !(method == http.MethodGet && r.Method == http.MethodHead) {
		w.Header().Set("Allow", method)
		api.Refuse(w, http.StatusMethodNotAllowed, "method not allowed")
		return
	}
	do()
}
