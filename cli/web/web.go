// Package web serves pages to the operator's browser: it listens, logs them in, and stands before every page. What the
// pages show is the sections' own.
//
// It is reached by browsers, which carry other people's pages too, so it trusts nothing that a browser sends without
// being asked: it is called by its own name, from its own pages, or not at all.
//
// Invariants:
//
//  1. Nothing but the login page and files that are the same in every copy of the program is shown without a session.
//  2. A request under a name that nobody configured is refused before anything else: a page elsewhere cannot have its
//     own name point here (DNS rebinding). An address is no name: what a browser calls by it, it has dialled.
//  3. What changes something comes from a page of ours.
//  4. Beyond this machine it speaks https, or to a trusted proxy.
//  5. A request's context ends when its session does, and its cause is then login.ErrNotGood.
//  6. A header that names who asks is believed of trusted proxies alone. Whoever comes so may do what everybody may who is logged
//     in: the proxy decides whom it lets in, and the name stands in the audit list.
//
// A reader without a session is led to the login, and a stream gets the event "end": a browser's console would show each
// 401. A stream looks every 5 s whether its session stands, and every 2 s whether what it shows changed, since nothing in
// the engine knows that pages exist. Each look sends something, so a page to which nothing comes for 4.5 s says that the
// server does not answer.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

const (
	headerTime = 10 * time.Second
	stopWithin = 2 * time.Second
)

// Section is a part of the site with pages of its own.
type Section interface {
	// Mount adds the section's handlers to mux, with patterns such as "GET /chat". What guard returns is served to who
	// is logged in only, and its requests' contexts end with the session; what is mounted without it, to anybody.
	Mount(mux *http.ServeMux, guard func(http.Handler) http.Handler)
}

// Server serves the pages. Make one with New, run it once.
type Server struct {
	// Set once, by New.
	o       Options
	handler http.Handler
}

// New makes a server of sections. Nothing listens before Run.
func New(desk *login.Desk, o Options, sections ...Section) *Server {
	o = o.filled()
	var host string
	var secure bool
	if u, err := url.Parse(o.URL); err == nil {
		host, secure = u.Hostname(), u.Scheme == "https"
	}
	l := &logins{desk: desk, o: o, secure: secure}
	mux := http.NewServeMux()
	page.MountFrame(mux)
	mux.HandleFunc("GET "+page.Login, l.page)
	mux.HandleFunc("POST "+page.Login, l.logIn)
	mux.HandleFunc("POST /logout", l.logOut)
	for _, section := range sections {
		section.Mount(mux, l.guard)
	}
	mux.Handle("/", l.guard(http.HandlerFunc(nothing)))
	f := front{o, host, secure}
	return &Server{o: o, handler: routes.Loud(f.before(http.NewCrossOriginProtection().Handler(mux)), o.Log)}
}

// nothing answers for every path that is no page.
func nothing(w http.ResponseWriter, _ *http.Request) {
	page.Answer(w, http.StatusNotFound, page.Words(page.Status, "There is no such page", "There are two pages: Status and Chat."))
}

// ServeHTTP answers a request as Run's listener does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Run answers on l until ctx ends, and returns nil then; an error of the listener ends it too. l is closed when it
// returns, and every request has ended.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, endRequests := context.WithCancel(ctx)
	defer endRequests()
	srv := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       limits.ConnContext,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       headerTime,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
	}
	l = limits.NewListener(l, s.o.TrustedProxies.Trust, s.o.Refused)
	if s.o.TLS != nil {
		l = tls.NewListener(l, s.o.TLS)
	}
	ended := make(chan error, 1) // holds Serve's result, so that its goroutine never waits
	go func() { ended <- srv.Serve(l) }()
	select {
	case <-ctx.Done():
	case err := <-ended:
		_ = srv.Close()
		return fmt.Errorf("serve the web pages: %w", err)
	}
	stop, giveUp := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer giveUp()
	_ = srv.Shutdown(stop) // streams end: their contexts ended with ctx
	_ = srv.Close()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the web pages: %w", err)
	}
	return nil
}

// Address is where people open pages that are served on addr (host:port): public if it is not empty, else addr, or,
// where that means every interface, the address of this machine in its network.
func Address(public, scheme, addr string) string {
	if public != "" {
		return public
	}
	host, port, _ := net.SplitHostPort(addr)
	if netaddr.Everywhere(host) {
		if host = "127.0.0.1"; netaddr.Address().IsValid() {
			host = netaddr.Address().String()
		}
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
