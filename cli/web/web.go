// Package web serves pages to the operator's browser: it listens, logs people in, and guards every page. The sections
// provide the content.
//
// Browsers also show other people's pages, which can make them send requests to this server. So it trusts no cookie or
// form because a browser sends it: a request must use the server's own name and, to change something, come from its own
// pages.
//
// Invariants:
//
//  1. Nothing but the login page and files that are the same in every copy of the program is shown without a session.
//  2. A request under a name that nobody configured is refused before anything else, so that a foreign page cannot let
//     its own name point here (DNS rebinding). An address is not a name: a browser that uses it has dialled it.
//  3. Only a page of ours can change something.
//  4. To other machines it speaks only https, except to a trusted proxy.
//  5. A request's context ends when its session does, and its cause is then login.ErrNotGood.
//  6. A header with the name of the person who asks is believed only from trusted proxies. That person may do
//     everything that a logged-in person may: the proxy decides whom it lets in, and the name appears in the audit
//     list.
//
// A reader without a session is led to the login, and a stream gets the event "end", because a browser's console would
// show each 401. A stream checks every 5 s that its session exists, and looks every 2 s whether its content has
// changed, since nothing in the engine knows of the pages. It sends something after each look, so a page that receives
// nothing for 4.5 s says that the server does not answer.
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
	// Mount adds the section's handlers to mux, with patterns such as "GET /chat". A handler that guard returns is
	// served only to people who are logged in, and the contexts of its requests end with the session. A handler mounted
	// without guard is served to anybody.
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

// nothing answers a request for a path that is no page.
func nothing(w http.ResponseWriter, _ *http.Request) {
	page.Answer(w, http.StatusNotFound, page.Words(page.Status, "There is no such page", "There are two pages: Status and Chat."))
}

// ServeHTTP answers a request as Run's listener does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Run answers at d until ctx ends, and returns nil then. If the door fails, it returns the error.
func (s *Server) Run(ctx context.Context, d door.Door) error {
	if err := door.Run(ctx, d, s, s.o.Refused); err != nil {
		return fmt.Errorf("serve the web pages: %w", err)
	}
	return nil
}

// Address returns where people open pages that are served on addr (host:port): public if it is not empty, else addr. If
// addr means every interface, it returns the address of this machine in its network.
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
