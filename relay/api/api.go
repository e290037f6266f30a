// Package api is the part of the contract that other programs call over HTTP: gateways that enroll, provision
// themselves and declare their policies, and programs that manage an instance.
//
// It identifies the caller and reads the request. relay/ops says what may be done and under which route, relay/manage
// does it, and relay/server/routes judges origins and the callers' addresses.
//
// Invariants:
//
//  1. Tenant and instance come from the credential's stored record. A body cannot change them.
//  2. A thing that does not exist and a thing of another tenant get the same answer.
//  3. A request is checked in this order: path, method, origin, credential, rate of the credential, body. Before the
//     credential is verified, only the failures of its address are remembered. Enrollment is the exception: its
//     credential is in the body.
//  4. A credential that verifies is not refused for its neighbours' failures. The exception: an
//     address that has used up its failures is refused before a third party is asked about it.
//  5. Every answer is a JSON object, is not cached and redirects nobody. Only the answer that hands out a credential
//     contains one, and no log does.
package api

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/identity"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/token"
)

// The rates per credential: how many requests a second, and how many at once after a pause.
const (
	manageRate, manageBurst = 2, 60
	// A tenant's gateways may share a credential, start together, and ask once per platform.
	bootRate, bootBurst = 20, 600
	// maxStrangers is how many requests of one address may be under way before their callers are identified.
	maxStrangers = 16
)

// Options are the API's settings; the zero value means the defaults.
type Options struct {
	Log *slog.Logger // nil means discard
	// Failures counts failed credentials per address. It is shared with the upgrade; nil means a count of its own.
	Failures *limits.Failures
	Now      func() time.Time // the clock of the limits; nil means time.Now
}

// API answers the routes. Its methods may be called from any goroutine.
type API struct {
	// Set once, by New.
	svc      *manage.Service
	auth     *token.Authority
	id       *identity.Verifier
	log      *slog.Logger
	failures *limits.Failures
	now      func() time.Time
	managing *limits.Rates // per gateway, instance or identity code
	booting  *limits.Rates // per identity

	// strangers counts the requests whose bodies hold the credential, and the questions to a third party: one address
	// cannot fill the memory with unfinished ones.
	strangers *limits.Share
}

// New makes an API over svc. auth knows the gateways' bearers, id everybody else's.
func New(svc *manage.Service, auth *token.Authority, id *identity.Verifier, o Options) *API {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &API{
		svc: svc, auth: auth, id: id, now: o.Now,
		log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), failures: cmp.Or(o.Failures, new(limits.Failures)),
		managing: limits.NewRates(manageRate, manageBurst), booting: limits.NewRates(bootRate, bootBurst),
		strangers: limits.NewShare(0, maxStrangers),
	}
}

// request is a request to a known route.
type request struct {
	*http.Request
	w     http.ResponseWriter
	from  netip.Addr // the caller's address, found behind trusted proxies
	route string     // its name: the path without rest
	rest  string     // the rest of the path, where a route ends in "/"
}

// handler serves a route and returns the body of a 200.
type handler func(*API, context.Context, *request) (any, error)

// route is one path that the API serves.
type route struct {
	methods []string
	do      handler
}

// byPath returns all routes, by their exact paths; one that ends in "/" matches paths with one more part. Each route
// except the token endpoint is an operation of the table ops.All. An operation that own does not name gets its
// arguments from the body unchanged, except for the name (plain).
func byPath() map[string]route {
	all := map[string]route{"/relay/identity/": {[]string{http.MethodGet, http.MethodPost}, (*API).identity}}
	own := map[*ops.Row]handler{
		ops.EnrollByToken.Row: (*API).enroll,
		ops.Provision.Row:     (*API).provision,
		ops.SetRelevance.Row:  asks(relevance, declare),
		ops.Link.Row:          asks(linkFor, ops.Link.Do),
		ops.ClaimOwned.Row:    asks(scope, ops.ClaimOwned.Do),
		ops.Release.Row:       asks(scope, ops.Release.Do),
		ops.SetPrincipal.Row:  asks(principal, ops.SetPrincipal.Do),
		ops.SetDMDefault.Row:  asks(bind, ops.SetDMDefault.Do),
		ops.Deprovision.Row:   asks(named, deprovision),
		ops.Self.Row:          byManager((*API).self),
	}
	for _, op := range ops.All() {
		if method, path, ok := strings.Cut(op.Route, " "); ok {
			do := own[op]
			if do == nil {
				do = plain(op)
			}
			all[path] = route{[]string{method}, do}
		}
	}
	return all
}

// Routes returns the API's rows for the server's table of routes.
func (a *API) Routes() (all []routes.Route) {
	for path, ro := range byPath() {
		all = append(all, routes.Route{Path: path, Methods: ro.methods, Policy: programs, Serve: func(w http.ResponseWriter, r *http.Request, from netip.Addr) {
			a.serve(path, ro, w, r, from)
		}})
	}
	return all
}

// programs is the policy of a route for gateways and other programs, with a small body.
var programs = routes.Policy{Body: maxBody}

func (a *API) serve(name string, ro route, w http.ResponseWriter, r *http.Request, from netip.Addr) {
	rest := r.URL.EscapedPath()[len(name):]
	out, err := ro.do(a, r.Context(), &request{Request: r, w: w, from: from, route: name, rest: rest})
	if err == nil {
		routes.Answer(w, http.StatusOK, out)
		return
	}
	refused, ok := asRefusal(err)
	if !ok {
		level := slog.LevelWarn
		if r.Context().Err() != nil { // the caller hung up
			level = slog.LevelDebug
		}
		a.log.Log(r.Context(), level, "request not served; the caller may come again", "route", name, "from", from, "err", err)
		refused = routes.Refused(http.StatusServiceUnavailable, "unavailable")
	}
	refused.Answer(w)
}
