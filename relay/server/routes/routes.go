// Package routes stands before every handler that a stranger can reach: it has a table of routes, each with a policy,
// finds the callers' addresses, and defines the form of an answer. relay/server owns the listener, and the order of
// start and stop.
//
// Invariants:
//
//  1. A request is judged in one order: upgrade, path, method, origin, share; then its handler sees it.
//  2. Paths match as they were sent, without cleaning, decoding or redirecting: the gateway's client turns
//     a redirected POST into a GET.
//  3. Every request, even a refused one, has a time by which it must have arrived and one by which its answer must have
//     been read; and its handler reads no more of its body than its route allows. The rest of a body that is too large
//     is dropped, within bounds, so that the caller reads the answer (linger.go).
package routes

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/server/limits"
)

// The limits of a route that sets no others.
const (
	// ReadTime is how long a request may take to arrive, even with a body that nobody wants.
	ReadTime = 20 * time.Second
	// AnswerTime is how long the caller may take to read the answer.
	AnswerTime = time.Minute
)

// Route is one path that is served.
type Route struct {
	Path    string // exact; one that ends in "/" matches paths with exactly one more part
	Methods []string
	Policy  Policy
	Serve   Handler
}

// Handler answers the requests of a route. from is the caller's address, found behind trusted proxies.
type Handler func(w http.ResponseWriter, r *http.Request, from netip.Addr)

// Policy holds the limits for the requests of a route. The zero value is for programs that send no body. The server
// bounds the header, which is read before the path is known.
type Policy struct {
	Sockets  bool // for gateways, which ask for a WebSocket
	Browsers bool // serve requests with an Origin too
	// KeepAlive lets a connection serve more than one request. It is only for few callers: the limit on connections
	// then no longer limits requests.
	KeepAlive bool
	Body      int64         // the largest body, in bytes
	Read      time.Duration // for the request to arrive; then the request's context ends; 0 means ReadTime
	Answer    time.Duration // for the answer to be made and read; 0 means AnswerTime
	// Share bounds the requests under way: long ones must not take the place of quick ones. nil: only the limit on
	// connections applies.
	Share *limits.Share
}

// Table is a table of routes. It is an http.Handler.
type Table struct {
	routes  map[string]Route
	also    func(path string) (Route, bool)
	proxies Proxies
}

// New makes a table. Of two routes with the same path the later one counts.
func New(proxies Proxies, all ...Route) *Table {
	d := &Table{routes: make(map[string]Route), also: func(string) (Route, bool) { return Route{}, false }, proxies: proxies}
	for _, m := range all {
		d.routes[m.Path] = m
	}
	return d
}

// Also sets find, which looks up the paths that are not in the table, for routes that come and go while the table is
// served. Also must be called before the first request.
func (d *Table) Also(find func(path string) (Route, bool)) *Table {
	d.also = find
	return d
}

// find returns the route at a path as it was sent.
func (d *Table) find(path string) (m Route, ok bool) {
	if strings.HasSuffix(path, "/") {
		return Route{}, false
	}
	if m, ok = d.routes[path]; !ok {
		m, ok = d.routes[path[:strings.LastIndexByte(path, '/')+1]]
	}
	if !ok {
		m, ok = d.also(path)
	}
	return m, ok
}

// ServeHTTP lets a request in to its route, or refuses it.
func (d *Table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m, found := d.find(r.URL.EscapedPath())
	p := m.Policy
	body := newBody(w, r, p.Body)
	r.Body = body
	if !p.KeepAlive {
		w.Header().Set("Connection", "close")
	}
	now, conn := time.Now(), http.NewResponseController(w)
	_ = conn.SetReadDeadline(now.Add(cmp.Or(p.Read, ReadTime))) // fails only for tests' connections, without deadlines
	_ = conn.SetWriteDeadline(now.Add(cmp.Or(p.Answer, AnswerTime)))
	switch {
	case upgrades(r) && !p.Sockets: // before any other check (wire.md 2.1)
		Refuse(w, http.StatusBadRequest, "gateways dial /relay")
		return
	case !found:
		Refuse(w, http.StatusNotFound, "not found")
		return
	case !slices.Contains(m.Methods, r.Method):
		w.Header().Set("Allow", strings.Join(m.Methods, ", "))
		Refuse(w, http.StatusMethodNotAllowed, "method not allowed")
		return
	case !p.Browsers && r.Header.Get("Origin") != "":
		Refuse(w, http.StatusForbidden, "browsers are not served here")
		return
	}
	m.serve(w, r, d.proxies.From(r))
	body.linger(w)
}

// serve lets a request in to its handler, if the route's share has a place for it.
func (m Route) serve(w http.ResponseWriter, r *http.Request, from netip.Addr) {
	if share := m.Policy.Share; share != nil {
		leave, ok := share.Enter(from)
		if !ok {
			TooMany(w, time.Second, "too many requests at once")
			return
		}
		defer leave()
	}
	m.Serve(w, r, from)
}

// upgrades reports whether r asks for a WebSocket. Some proxies put a Connection: upgrade into every request, so that
// header alone tells nothing.
func upgrades(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}
