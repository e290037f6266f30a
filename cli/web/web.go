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
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/hermes-connector/hermes-connector/cli/netaddr"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/server/door"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
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

// Run answers at d until ctx ends, and returns nil then; an error of the door ends it too.
func (s *Server) Run(ctx context.Context, d door.Door) error {
	if err := door.Run(ctx, d, s, s.o.Refused); err != nil {
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
