// Package webhooks receives web hooks, the requests that chat networks make over HTTP. It finds the bot by the
// path, reads the body within the bot's bounds, lets the bot's platform judge the request, and writes the answer.
//
// It knows no network: the platform knows who may call, and reads the call. Events from a bot take the usual way,
// through platforms.Inbox.
//
// Invariants:
//
//  1. A request is checked in this order: path, method, size, and then by the platform, its signature first.
//  2. A caller that has not proved who it is leaves only a count and a line in the ring of refusals, learns nothing,
//     and changes no bot's state.
//  3. No body, query or header is logged.
//
// Refusals have a ring of their own, beside that of verdicts, so that strangers cannot push verdicts out.
package webhooks

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

const (
	// smallBody is how many bytes of a body are read for any number of callers at a time: as many as the listener lets
	// in, 1,024 strangers. Larger bodies are read for a limited number of callers only, in all and for one address. A
	// text message has at most 20 KiB, and few have more than 2.
	smallBody     = 16 << 10
	maxLarge      = 32
	maxLargeOfOne = 8
	retryLarge    = 5 * time.Second
	maxRefusals   = 200
	// answerTime is the time for the body to arrive, for the platform to check it and store its events, and for the
	// answer to be read.
	answerTime = 50 * time.Second
)

// Options of a Receiver.
type Options struct {
	Log   *slog.Logger
	Count func(count.Counter)
}

// Receiver answers web hooks. Its methods may be called from any goroutine.
type Receiver struct {
	// Set once, by New.
	count func(count.Counter)
	log   *slog.Logger
	large *limits.Share

	mu       sync.Mutex // guards the fields below
	hooks    []*hooked
	refusals []Refusal     // the newest last
	lost     []Undelivered // the newest last
}

// hooked is one bot that its network calls.
type hooked struct {
	bot   relay.Bot
	hook  platforms.Hook
	rules platforms.HookRules

	mu    sync.Mutex // guards state
	state State
}

// State describes the requests for a bot.
type State struct {
	LastRequestAt time.Time // when the network last made a proved call; zero: not since the start
	Refused       uint64    // refused requests since the start
	Unsigned      uint64    // requests since LastRequestAt with a wrong signature
	// Skew is how far the time of the newest request with platforms.StaleTimestamp since LastRequestAt was from ours,
	// positive if ours was ahead; 0: there was none.
	Skew time.Duration
	// Strayed: the newest proved request was for another recipient.
	Strayed bool
}

// Refusal is a request that was refused.
type Refusal struct {
	At     time.Time             `json:"at"`
	Bot    relay.Bot             `json:"bot"`
	Reason platforms.HookRefusal `json:"reason"`
}

// Undelivered is a message of a bot that did not arrive, as its network reported.
type Undelivered struct {
	At  time.Time
	Bot relay.Bot
	platforms.HookNote
}

// New makes the receiver for those bots whose networks call them.
func New(bots []platforms.Bot, o Options) *Receiver {
	p := &Receiver{count: o.Count, log: o.Log, large: limits.NewShare(maxLarge, maxLargeOfOne)}
	p.Host(bots)
	return p
}

// Host makes the receiver serve bots. It keeps the state of bots that stay; a request under way is answered by the bot
// for which it came.
func (p *Receiver) Host(bots []platforms.Bot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var hooks []*hooked
	for _, b := range bots {
		h, rules, ok := platforms.Called(b)
		if !ok {
			continue
		}
		if i := slices.IndexFunc(p.hooks, func(x *hooked) bool { return x.hook == h }); i >= 0 {
			hooks = append(hooks, p.hooks[i])
			continue
		}
		hooks = append(hooks, &hooked{bot: b.ID(), hook: h, rules: rules})
	}
	p.hooks = hooks
}

// hooked returns the first bot for which is returns true; nil: none.
func (p *Receiver) hooked(is func(relay.Bot) bool) *hooked {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.hooks, func(h *hooked) bool { return is(h.bot) }); i >= 0 {
		return p.hooks[i]
	}
	return nil
}

// Route returns the route at the path of a bot that is hosted now; see routes.Table.Also.
func (p *Receiver) Route(path string) (m routes.Route, ok bool) {
	h := p.hooked(func(b relay.Bot) bool { return platforms.HookPath(b) == path })
	if h == nil {
		return m, false
	}
	return routes.Route{
		Path: path, Methods: h.rules.Methods,
		// Requests with an Origin are served, too: the platform checks the signature.
		Policy: routes.Policy{Body: h.rules.MaxBody, Browsers: true, Answer: answerTime},
		Serve: func(w http.ResponseWriter, r *http.Request, from netip.Addr) {
			p.serve(h, w, r, from)
		},
	}, true
}

// serve answers one request for h.
func (p *Receiver) serve(h *hooked, w http.ResponseWriter, r *http.Request, from netip.Addr) {
	if r.ContentLength > h.rules.MaxBody {
		tooLarge(w, h.rules.MaxBody)
		return
	}
	// The size of a body is known only when it is read: proxies pass on small ones in chunks, too.
	body, err := io.ReadAll(io.LimitReader(r.Body, smallBody+1))
	if err == nil && len(body) > smallBody {
		leave, ok := p.large.Enter(from)
		if !ok {
			write(w, platforms.HookAnswer{Status: http.StatusServiceUnavailable, RetryAfter: retryLarge})
			return
		}
		defer leave()
		var rest []byte
		rest, err = io.ReadAll(r.Body)
		body = append(body, rest...)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		tooLarge(w, h.rules.MaxBody)
		return
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the caller is gone, or too slow: close the connection, since a return answers 200
	}
	a := h.hook.Receive(r.Context(), platforms.HookRequest{
		Method: r.Method, Target: r.RequestURI, Header: r.Header, Body: body,
		Verified: func() {
			limits.Verified(r.Context())
			// A caller that proved who it is may keep the connection, until a request on it proves nothing.
			w.Header().Del("Connection")
			h.proved()
		},
	})
	for _, n := range a.Notes {
		p.count(count.HookNote(n.Status))
		if n.Status == "failed" || n.Status == "undelivered" {
			p.undelivered(h.bot, n)
		}
	}
	if a.Refused != "" {
		p.refused(h, a)
	}
	write(w, a)
}

func tooLarge(w http.ResponseWriter, most int64) {
	size := fmt.Sprintf("%d KiB", most>>10)
	if most >= 1<<20 {
		size = fmt.Sprintf("%d MiB", most>>20)
	}
	routes.Refuse(w, http.StatusRequestEntityTooLarge, "the body is larger than "+size)
}

// proved notes that the network has called.
func (h *hooked) proved() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = State{LastRequestAt: time.Now(), Refused: h.state.Refused}
}

// refused counts and remembers a refusal.
func (p *Receiver) refused(h *hooked, a platforms.HookAnswer) {
	p.count(count.HookRefused(string(a.Refused)))
	h.mu.Lock()
	h.state.Refused++
	switch a.Refused {
	case platforms.BadSignature:
		h.state.Unsigned++
	case platforms.StaleTimestamp:
		h.state.Skew = a.Skew
	case platforms.WrongRecipient:
		h.state.Strayed = true
	}
	h.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusals = newest(p.refusals, Refusal{At: time.Now(), Bot: h.bot, Reason: a.Refused})
	p.log.Debug("web hook refused", "bot", h.bot.String(), "reason", a.Refused)
}

// newest appends one to all, and drops the oldest if all has maxRefusals entries already.
func newest[T any](all []T, one T) []T {
	if len(all) >= maxRefusals {
		all = append(all[:0], all[1:]...)
	}
	return append(all, one)
}

func (p *Receiver) undelivered(b relay.Bot, n platforms.HookNote) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = newest(p.lost, Undelivered{At: time.Now(), Bot: b, HookNote: n})
}

// Undelivered returns the newest maxRefusals messages that did not arrive, oldest first.
func (p *Receiver) Undelivered() []Undelivered {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Undelivered(nil), p.lost...)
}

// Refusals returns the newest maxRefusals refusals, oldest first.
func (p *Receiver) Refusals() []Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Refusal(nil), p.refusals...)
}

// State describes the requests for a bot; ok is false if no network calls it.
func (p *Receiver) State(b relay.Bot) (s State, ok bool) {
	h := p.hooked(func(one relay.Bot) bool { return one == b })
	if h == nil {
		return State{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, true
}

// write answers a request.
func write(w http.ResponseWriter, a platforms.HookAnswer) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if a.Type != "" {
		h.Set("Content-Type", a.Type)
	}
	if a.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(a.RetryAfter.Seconds()))))
	}
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the caller may be gone; there is nobody else to tell
	// The answer is sent before the request's context ends: platforms wait for that end with work that must come later.
	_ = http.NewResponseController(w).Flush() // the caller may be gone
}
