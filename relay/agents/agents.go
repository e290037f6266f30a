// Package agents is where programs hand over what they have for agents: a cron job, a skill runtime, curl. A caller is a
// program that the operator let in; an agent is an instance. What a caller hands over becomes an event of the one bot of this
// package, which no [[bots]] table makes, and so goes the way of every message: the gate, the lane, the session. What an agent
// says in that chat is kept for the caller.
//
// The contract is AgentConnector v1.0: deliver and wake answer with receipts that say what is so, exchange waits for the
// answer, and a lack of ability is never an error.
//
// Invariants:
//
//  1. Whom a caller may reach is a binding of the person that it is for that agent (relay.Program), and nothing else.
//  2. A caller that asks for an agent that is not there gets the same answer as for one that it may not reach, after the same
//     work.
//  3. A receipt is on disk, with its entry, before it is given out. The same dispatch of a caller to an agent is one entry,
//     however often it comes.
//  4. Nothing that a caller says is a gateway's command: a line of ours stands before it.
//  5. woken is said of an entry that this request made and a gateway has acknowledged since, and of nothing else.
//  6. What a credential is, and what callers and agents say, is in no log and no error.
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
	maxText = 128 << 10 // bytes of what is handed over
	// bodyTime is how long a body may take to arrive.
	bodyTime = 10 * time.Second

	rate, burst = 1, 30 // requests a second of a caller, and at once after a pause
	heldEach    = 16    // requests of a caller that wait for something
	heldAll     = 64

	// holdMost is the longest that a request waits for something.
	holdMost = 5 * time.Minute
)

// Sealer opens the secrets that callers sign with; *vault.Vault.
type Sealer interface {
	Unseal(bucket, key string, sealed []byte) (relay.Secret, error)
}

// Live knows how agents are, and reaches people; *hub.Hub. Its methods do not block, but for Tell.
type Live interface {
	// Awake reports whether a session serves the agent now whose gateway did not say that it goes idle.
	Awake(relay.InstanceID) bool
	// Bots are the hosted bots.
	Bots() []platforms.Bot
	// Tell has a bot write to a person, in a program's words and in the name of the agent that they are linked to. It blocks.
	Tell(ctx context.Context, to store.Binding, c relay.Chat, program, text string) (relay.Result, error)
	// Active is when the gateway that serves the agent last acknowledged or asked for something; zero: it did not.
	Active(relay.InstanceID) time.Time
}

// Waker wakes agents; *wake.Waker.
type Waker interface {
	Ask(ctx context.Context, i relay.InstanceID) (wake.Asked, error)
}

// Options are a Desk's settings; the zero value means the defaults.
type Options struct {
	Log *slog.Logger // nil means discard
	// Failures are the failed credentials per address, to be shared with the upgrade; nil means a count of its own.
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
	rates    *limits.Rates
	tells    *limits.Rates
	due      chan struct{} // capacity 1: something was scheduled
	turns    turns

	mu   sync.Mutex // guards the fields below
	held map[string]int
	all  int
}

// New makes a desk. mac knows the callers' tokens, and seal opens what they sign with.
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

// request is one request to a known route, of a caller that has proved who it is.
type request struct {
	*http.Request
	w      http.ResponseWriter
	from   netip.Addr
	route  string
	rest   string // what is asked for, where a route ends in "/"
	raw    []byte // the body
	caller caller
}

// handler does what a route is for and returns what to answer with 200.
type handler func(*Desk, context.Context, *request) (any, error)

// route is what is served at a path.
type route struct {
	method string
	path   string
	holds  bool // it may wait for something
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

// Routes are for the table in front of all handlers.
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

// hold counts a request in that waits for something. done is to be called in the end.
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

// health answers whether what is handed over can be stored.
func (d *Desk) health(context.Context, *request) (any, error) {
	if d.db.Probe() != nil {
		return nil, unavailable()
	}
	return map[string]bool{"ok": true}, nil
}
