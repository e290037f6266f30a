// Package agents lets programs hand over messages to agents: a cron job, a skill runtime, curl. A caller is a program
// that the operator let in; an agent is an instance. What a caller hands over becomes an event of this package's one
// bot, which is not in [[bots]]. The event then goes the way of every message: the gate, the lane, the session. What
// the agent says in that chat is kept for the caller.
//
// The contract is AgentConnector v1.0: deliver and wake answer with truthful receipts, exchange waits for the agent's
// answer, and a missing ability is never an error.
//
// Invariants:
//
//  1. A caller may reach an agent only while the two are linked. The link is a binding, like a person's: relay.Program
//     makes one user id of the caller and the agent, and that user is bound to the agent.
//  2. A caller that asks for an agent that does not exist gets the same answer as for one that it may not reach, after
//     the same work.
//  3. A receipt is on disk, with its entry, before the caller gets it. However often a caller repeats a dispatch to an
//     agent, it is one entry.
//  4. No text of a caller is a command to a gateway: the message begins with a line that this package writes.
//  5. An answer says woken only if its own request made the entry, and a gateway has acknowledged the entry since.
//  6. No log and no error shows a credential, or what callers and agents say.
package agents

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	maxBody = 256 << 10 // bytes
	maxText = 128 << 10 // bytes of a message
	// bodyTime is how long a body may take to arrive.
	bodyTime = 10 * time.Second

	rate, burst = 1, 30 // requests a second of one caller, and how many at once after a pause
	heldEach    = 16    // waiting requests of one caller
	heldAll     = 64    // waiting requests of all callers

	// holdMost is the longest that a request waits for an agent.
	holdMost = 5 * time.Minute
)

// Sealer opens the secrets with which callers sign. *vault.Vault implements it.
type Sealer interface {
	Unseal(bucket, key string, sealed []byte) (relay.Secret, error)
}

// Live knows which agents are online, and writes to people. *hub.Hub implements it. Only Tell blocks.
type Live interface {
	// Awake reports whether a session serves the agent now and its gateway has not said that it goes idle.
	Awake(relay.InstanceID) bool
	// Bots returns the hosted bots.
	Bots() []platforms.Bot
	// Tell makes a bot write to a person, with a program's text and in the name of the agent to which the person is
	// linked. It blocks.
	Tell(ctx context.Context, to store.Binding, c relay.Chat, program, text string) (relay.Result, error)
	// Active returns when the gateway that serves the agent last acknowledged or requested something; zero: not yet.
	Active(relay.InstanceID) time.Time
}

// Waker wakes agents. *wake.Waker implements it.
type Waker interface {
	Ask(ctx context.Context, i relay.InstanceID) (wake.Asked, error)
}

// Options are a Desk's settings; the zero value means the defaults.
type Options struct {
	Log *slog.Logger // nil means discard
	// Failures counts failed credentials per address. The gateways' WebSocket upgrade counts in the same one; nil means a
	// count of the desk's own.
	Failures *limits.Failures
	Now      func() time.Time // the clock; nil means time.Now
}

// Desk answers callers. Its methods may be called from any goroutine.
type Desk struct {
	// Set once, by New.
	db       *store.DB
	bot      *Bot
	mac      relay.MACer
	seal     Sealer
	live     Live
	waker    Waker
	log      *slog.Logger
	failures *limits.Failures
	now      func() time.Time
	rates    *limits.Rates // of the requests of each caller
	tells    *limits.Rates // of the messages of each caller to people
	due      chan struct{} // capacity 1: something was scheduled
	turns    turns

	mu   sync.Mutex     // guards the fields below
	held map[string]int // waiting requests, by the caller's name
	all  int            // waiting requests of all callers
}

// New makes a desk. mac identifies callers by their tokens, and seal opens the secrets with which they sign.
func New(db *store.DB, bot *Bot, mac relay.MACer, seal Sealer, live Live, waker Waker, o Options) *Desk {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Desk{
		db: db, bot: bot, mac: mac, seal: seal, live: live, waker: waker, now: o.Now,
		log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), failures: cmp.Or(o.Failures, new(limits.Failures)),
		rates: limits.NewRates(rate, burst), tells: limits.NewRates(tellRate, tellBurst), due: make(chan struct{}, 1), held: make(map[string]int),
	}
}

// request is a request to a known route by a caller that has proved its identity.
type request struct {
	*http.Request
	w      http.ResponseWriter
	from   netip.Addr
	route  string
	rest   string // the rest of the path, where a route ends in "/"
	raw    []byte // the body
	caller caller
}

// handler serves a route and returns the body of a 200.
type handler func(*Desk, context.Context, *request) (any, error)

// route is one path that the desk serves.
type route struct {
	method string
	path   string
	holds  bool // a request may wait for an agent
	prove  func(*Desk, context.Context, *request) error
	do     handler
}

func table() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{get, "/agents", false, (*Desk).bearer, (*Desk).list},
		{get, "/agents/status/", false, (*Desk).bearer, (*Desk).status},
		{post, "/agents/deliver", false, (*Desk).bearer, (*Desk).deliver},
		{post, "/agents/deliver/", false, (*Desk).bearer, (*Desk).deliver},
		{post, "/agents/wake/", true, (*Desk).bearer, (*Desk).wake},
		{post, "/agents/wakekey/", false, (*Desk).wakeKey, (*Desk).wakeByKey},
		{post, "/agents/exchange/", true, (*Desk).bearer, (*Desk).exchange},
		{post, "/agents/tell/", true, (*Desk).bearer, (*Desk).tellPerson},
		{post, "/agents/push/", true, (*Desk).pushKey, (*Desk).push},
		{get, "/agents/receipt/", false, (*Desk).bearer, (*Desk).receipt},
		{get, "/agents/replies", true, (*Desk).bearer, (*Desk).replies},
		{get, "/agents/health", false, func(*Desk, context.Context, *request) error { return nil }, (*Desk).health},
	}
}

// Routes returns the desk's rows for the server's table of routes.
func (d *Desk) Routes() (all []routes.Route) {
	for _, ro := range table() {
		p := routes.Policy{Body: maxBody}
		if ro.holds {
			p.Read, p.Answer = holdMost+routes.ReadTime, holdMost+routes.AnswerTime
		}
		all = append(all, routes.Route{Path: ro.path, Methods: []string{ro.method}, Policy: p, Serve: func(w http.ResponseWriter, r *http.Request, from netip.Addr) {
			d.serve(ro, w, r, from)
		}})
	}
	return all
}

func (d *Desk) serve(ro route, w http.ResponseWriter, hr *http.Request, from netip.Addr) {
	r := &request{Request: hr, w: w, from: from, route: ro.path}
	out, err := func() (any, error) {
		rest, err := url.PathUnescape(hr.URL.EscapedPath()[len(ro.path):])
		if err != nil {
			return nil, routes.Refused(http.StatusBadRequest, "the path is not UTF-8 in percent encoding")
		}
		r.rest = rest
		if err := ro.prove(d, hr.Context(), r); err != nil {
			return nil, err
		}
		return ro.do(d, hr.Context(), r)
	}()
	if err == nil {
		routes.Answer(w, http.StatusOK, out)
		return
	}
	d.refuse(r, err)
}

// hold counts a request that is about to wait, or refuses it if too many wait. The caller calls done when the wait is
// over.
func (d *Desk) hold(caller string) (done func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all >= heldAll || d.held[caller] >= heldEach {
		return nil, routes.Busy(time.Second, "too many requests wait")
	}
	d.all++
	d.held[caller]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all--
		if d.held[caller]--; d.held[caller] == 0 {
			delete(d.held, caller)
		}
	}, nil
}

// health reports whether messages can be stored.
func (d *Desk) health(context.Context, *request) (any, error) {
	if d.db.Probe() != nil {
		return nil, unavailable()
	}
	return map[string]bool{"ok": true}, nil
}
