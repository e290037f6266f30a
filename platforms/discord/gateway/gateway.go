// Package gateway keeps one bot's connection to Discord's gateway: where to connect, hello, identify or resume,
// heartbeats, and the step after each kind of end. It does not use the socket of discordgo, because that one can hang
// for ever, cannot resume after a restart and does not distinguish a final close from others.
//
// It hands dispatches to the Handler, and reads only READY and RESUMED itself.
//
// Invariants:
//
//  1. It never closes the socket with 1000 or 1001, which would end the session: after a restart the session
//     is resumed.
//  2. No read is without a deadline, from the dial to the last byte of a payload.
//  3. At most maxIdentifies identifies leave in a rolling day, and never more than Discord grants.
//  4. The state is Connected only between READY or RESUMED and the loss of the socket.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/socket"
	"github.com/hermes-connector/hermes-connector/platforms/status"
)

const (
	// steady is how long a connection must last to count as a good one.
	steady = time.Minute
	// maxResumes is how many resumes in a row may fail, while Discord is in reach, before a new session is begun.
	maxResumes = 5
	// maxDetours is how many dials of the resume address in a row may fail before the general address is used.
	maxDetours = 2
	// askTimeout bounds the question where the gateway is.
	askTimeout = 15 * time.Second
)

// ErrFull is a Handler's error if it took a dispatch and wants no more for a while.
var ErrFull = errors.New("more came than the disk takes")

// Handler receives the dispatches. Begin, Dispatch and Skipped are called on the goroutine that reads, and must not
// wait; their error ends the connection.
type Handler interface {
	// Relax waits until the Handler can take dispatches. It returns false when ctx ended first.
	Relax(ctx context.Context) bool
	// Begin takes the READY of a new session.
	Begin(p Packet, s Session, r Ready) error
	// Dispatch takes any other dispatch.
	Dispatch(ctx context.Context, p Packet) error
	// Skipped takes the beginning of a dispatch that was too large to look at.
	Skipped(p Packet, err error) error
}

// Ledger keeps the budget over restarts.
type Ledger interface {
	Budget() Budget
	// ChangeBudget changes the budget. soon: the change is worth a write of its own.
	ChangeBudget(soon bool, change func(*Budget))
}

// Session is a session at Discord, and the newest of its dispatches that was dealt with.
type Session struct {
	ID  string `json:"id"`
	URL string `json:"url,omitempty"` // where to resume; empty: the general address
	Seq int64  `json:"seq"`
}

const (
	keyAnswerWait   = "answer_timeout"
	keyRetryWait    = "retry_wait"
	keyRetryMax     = "retry_max"
	keyIdentifyWait = "identify_wait"
	keyIntentWait   = "intent_wait"
)

// Keys returns the settings of a gateway.
func Keys() []platforms.Key {
	return []platforms.Key{
		platforms.DurationKey(keyAnswerWait, "15s",
			"how long Discord may take to answer a connect, a greeting or an identify, or to finish a payload it began"),
		platforms.DurationKey(keyRetryWait, "1s", "the first pause after a lost connection; doubles with each further failure"),
		platforms.DurationKey(keyRetryMax, "1m", "the longest pause after a lost connection"),
		platforms.DurationKey(keyIdentifyWait, "5s", "the least pause between two new sessions; grows with their number in a day"),
		platforms.DurationKey(keyIntentWait, "20m", "the pause while Discord refuses an intent, until it is enabled in the developer portal"),
	}
}

// Retries returns the pauses between attempts.
func Retries(s platforms.Settings) backoff.Backoff {
	return backoff.Backoff{First: s.Duration(keyRetryWait), Max: s.Duration(keyRetryMax)}
}

// Options are what a Gateway needs.
type Options struct {
	Rest     *rest.Client
	Settings platforms.Settings // the values of Keys
	Status   *status.Tracker
	Log      *slog.Logger
	Handler  Handler
	Ledger   Ledger
}

// Gateway is the loop that keeps a connection. Only that loop uses its fields.
type Gateway struct {
	Options

	live    Session // where a resume would go on; ID is empty when there is nothing to resume
	wait    backoff.Backoff
	resumes int  // in a row that failed
	detours int  // dials of the resume address in a row that failed
	ever    bool // READY or RESUMED came at least once

	// Of the connection at hand.
	resuming bool
	sock     *connection
}

// New makes a gateway that resumes the session s, if s has an id.
func New(o Options, s Session) *Gateway {
	return &Gateway{Options: o, live: s, wait: Retries(o.Settings)}
}

// Run keeps a connection until ctx ends (then it returns nil) or trying again cannot help. It owns three
// goroutines per socket.
func (g *Gateway) Run(ctx context.Context) error {
	for g.Handler.Relax(ctx) {
		err := g.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := g.after(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// once makes one connection and serves it to its end. It returns why the connection ended.
func (g *Gateway) once(ctx context.Context) error {
	address, err := g.address(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := g.dial(ctx, address); err != nil {
		if g.resuming && g.live.URL != "" {
			g.detours++
		}
		return err
	}
	g.detours = 0
	err = g.sock.Serve(ctx, g.sock)
	switch {
	case g.sock.greeted.Load():
		g.resumes = 0
		if time.Since(began) >= steady {
			g.wait.Reset()
		}
	case g.resuming && g.sock.interval != 0:
		g.resumes++
	}
	return err
}

// address decides whether to resume, and where to connect. For a new session it waits until the budget
// allows one.
func (g *Gateway) address(ctx context.Context) (string, error) {
	g.resuming = g.live.ID != "" && g.resumes < maxResumes
	if g.resuming && g.live.URL != "" && g.detours < maxDetours {
		return g.live.URL, nil
	}
	for {
		address, err := g.ask(ctx)
		if err != nil || g.resuming {
			return address, err
		}
		now := time.Now()
		at, reason := g.Ledger.Budget().due(now, g.Settings.Duration(keyIdentifyWait))
		if !at.After(now) {
			return address, nil
		}
		if at.Sub(now) > time.Minute {
			g.Status.Set(platforms.Degraded, reason)
			g.Log.Warn("discord session not begun yet", "reason", reason)
		}
		if !backoff.Pause(ctx, at.Sub(now)+rand.N(time.Second+at.Sub(now)/20)) {
			return "", ctx.Err()
		}
	}
}

// ask asks Discord where its gateway is, and how many sessions it grants.
func (g *Gateway) ask(ctx context.Context) (address string, err error) {
	var answer discordgo.GatewayBotResponse
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := g.Rest.Do(ctx, http.MethodGet, discordgo.EndpointGatewayBot, nil, &answer); err != nil {
		return "", err
	}
	if l := answer.SessionStartLimit; l != (discordgo.SessionInformation{}) {
		after := min(max(time.Duration(l.ResetAfter)*time.Millisecond, 0), day)
		g.Ledger.ChangeBudget(false, func(b *Budget) { b.granted(l.Remaining, after, time.Now()) })
	}
	return answer.URL, nil
}

// dial connects to address.
func (g *Gateway) dial(ctx context.Context, address string) error {
	target, err := g.target(address)
	if err != nil {
		return err
	}
	sock, err := socket.Dial(ctx, target, "the gateway", socket.Options{
		HTTP: g.Rest.Direct.HTTP, Header: http.Header{"User-Agent": {rest.UserAgent}},
		Wait: g.Settings.Duration(keyAnswerWait), Close: closeAgain,
		Whole: maxPayload, Skipped: maxSkipped, Head: HeadBytes,
	})
	if err != nil {
		return err
	}
	g.sock = &connection{Socket: sock, to: g, nudge: make(chan struct{}, 1)}
	if g.resuming {
		g.sock.seq.Store(g.live.Seq)
	}
	return nil
}

// target completes the address of the gateway. The token is sent to that address, so the address must be encrypted
// (wss), unless the configured API is not.
func (g *Gateway) target(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "wss" && (u.Scheme != "ws" || !strings.HasPrefix(g.Rest.Base, "http:")) {
		return "", errors.New("the gateway's address makes no sense")
	}
	q := u.Query()
	q.Set("v", rest.APIVersion)
	q.Set("encoding", "json")
	q.Del("compress") // the connection reads no compressed payloads
	u.RawQuery = q.Encode()
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String(), nil
}

// greeting returns the first payload that we send: an identify or a resume.
func (g *Gateway) greeting() command {
	token := g.Rest.Token.RevealString()
	if g.resuming {
		return resume(token, g.live)
	}
	// The identify does not wait until the budget is written: a program that dies before that is not the one that restarts
	// a hundred times.
	g.Ledger.ChangeBudget(true, func(b *Budget) { b.spend(time.Now()) })
	return identify(token)
}

// dispatch hands on one dispatch. The next connection resumes behind it.
func (g *Gateway) dispatch(ctx context.Context, p Packet) error {
	g.Status.EventReceived()
	switch p.Kind {
	case kindReady:
		r, err := decodeReady(p.Data)
		if err != nil {
			return fmt.Errorf("%w: READY: %w", errNonsense, err)
		}
		if _, err := g.target(r.ResumeURL); err != nil {
			r.ResumeURL = ""
		}
		g.live = Session{ID: r.SessionID, URL: r.ResumeURL, Seq: p.Seq}
		g.Status.SetName(r.User.Name)
		g.up("discord session begun")
		return g.Handler.Begin(p, g.live, r)
	case kindResumed:
		g.up("discord session resumed")
	}
	return g.Handler.Dispatch(ctx, g.passed(p))
}

// skipped hands on the beginning of a payload that was too large to read.
func (g *Gateway) skipped(head Packet, raw []byte) error {
	g.Log.Warn("discord payload skipped: too large", "kind", head.Kind, "seq", head.Seq)
	if head.Op != opDispatch {
		return nil
	}
	head.Data = raw
	return g.Handler.Skipped(g.passed(head), fmt.Errorf("a %q of more than %d bytes", head.Kind, maxPayload))
}

// passed notes the sequence of p, and gives p the last sequence if it has none.
func (g *Gateway) passed(p Packet) Packet {
	g.live.Seq = max(g.live.Seq, p.Seq)
	if p.Seq == 0 {
		p.Seq = g.live.Seq
	}
	return p
}

// up notes that a session is established, and logs what.
func (g *Gateway) up(what string) {
	g.ever = true
	g.Status.Set(platforms.Connected, "")
	g.Log.Info(what)
}
