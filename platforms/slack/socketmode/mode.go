// Package socketmode keeps an app's sockets to Slack. For each socket it asks Slack for an address, which works once.
// The socket brings envelopes, which go to the Handler, and the Handler acknowledges them. A socket stands from Slack's
// greeting until it ends or is replaced.
//
// Slack shares an app's events out among its sockets. So there is one socket, and there are two only while one replaces
// the other. A third one in Slack's count belongs to another program, which gets events that were meant for this one.
//
// Invariants:
//
//  1. When Slack asks to connect again, the next socket stands before the old one is retired. The old one stays open
//     until its envelopes are acknowledged, or for lingerFor.
//  2. The state is Connected only while a socket stands that Slack has greeted.
//  3. No address of a socket is in an error or the log.
package socketmode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/socket"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// steady is how long a connection must last to count as a good one.
	steady = time.Minute
	// patientFailures in a row are normal; after more the state is Degraded.
	patientFailures = 2
	// FirstCheck is how long after a hello that counted a foreign socket a new socket checks the count: Slack may not
	// have noticed the end of one of ours yet. If Slack counts a foreign socket again, the check is repeated, at
	// intervals of at most thirty times as long.
	FirstCheck = time.Minute
)

// OtherProgram is the beginning of the status of a bot whose app has a socket of another program.
const OtherProgram = "another program has a socket of this app"

// ErrFull is a Handler's error if it took an envelope and wants no more for a while.
var ErrFull = errors.New("more came than the disk takes")

// Handler takes envelopes.
type Handler interface {
	// Relax waits until the Handler can take envelopes. It returns false when ctx ended first.
	Relax(ctx context.Context) bool
	// Up is called when a socket stands, before its envelopes. gap: there was no socket before, so events may be
	// missing.
	Up(gap bool) error
	// Envelope takes an envelope. Neither Up nor Envelope may wait; an error of theirs ends the connection.
	Envelope(ctx context.Context, e Envelope) error
}

// Options are what Run needs.
type Options struct {
	// Ticket asks Slack for the address of a socket. It returns an error that wraps relay.ErrBadCredentials when a
	// token is not accepted any more.
	Ticket func(context.Context) (string, error)
	HTTP   *http.Client // that dials
	// Plain: sockets without encryption are accepted, because the API is on this machine or network, and has no
	// encryption either.
	Plain  bool
	Wait   time.Duration   // how long Slack may take to open a socket, to greet on it, or to answer a ping
	Check  time.Duration   // FirstCheck, except in tests
	Retry  backoff.Backoff // between attempts
	Status *status.Tracker
	Log    *slog.Logger
	Handler
}

// mode is one Run.
type mode struct {
	Options
	wg       sync.WaitGroup
	open     atomic.Int32 // how many sockets of ours are open
	standing atomic.Int32 // those that Slack has greeted, without those that are being released

	// Of Run's goroutine.
	ever      bool // a socket stood
	suspicion int  // how many hellos in a row counted another program's socket
}

// Run keeps a socket until ctx ends (then it returns nil), or trying again cannot help. When it returns, all of its
// sockets have ended. When Slack asks to connect again, or its count is to be checked, Run opens a new socket beside
// the present one, cur, and then retires cur.
func Run(ctx context.Context, o Options) error {
	m := &mode{Options: o}
	ctx, cancel := context.WithCancel(ctx)
	defer m.wg.Wait()
	defer cancel()
	var cur *conn // the present one; nil: none
	for ctx.Err() == nil {
		if cur == nil && !m.Relax(ctx) {
			return nil
		}
		next, err := m.connect(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if err := m.trouble(ctx, err, cur); err != nil {
				return err
			}
			if cur != nil && cur.over() {
				cur = nil
			}
			continue
		}
		if cur != nil {
			cur.retire()
		}
		cur = next
		m.stands(cur)
		began := time.Now()
		err = m.await(ctx, cur)
		if time.Since(began) >= steady {
			m.Retry.Reset()
		}
		if err != nil && ctx.Err() == nil {
			if err := m.trouble(ctx, err, nil); err != nil {
				return err
			}
			cur = nil
		}
	}
	return nil
}

// await waits until a next socket is wanted, and returns why c ended, if it did.
func (m *mode) await(ctx context.Context, c *conn) error {
	select {
	case <-c.leave:
		m.Log.Info("slack asks to connect again")
	case <-m.check():
	case <-c.ended:
		return c.err
	case <-ctx.Done():
	}
	return nil
}

// connect makes one connection, and waits for Slack's greeting on it.
func (m *mode) connect(ctx context.Context) (*conn, error) {
	address, err := m.Ticket(ctx)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "wss" && (u.Scheme != "ws" || !m.Plain) {
		return nil, errors.New("the socket's address makes no sense")
	}
	sock, err := socket.Dial(ctx, address, "Slack's socket", socket.Options{
		HTTP: m.HTTP, Wait: m.Wait, Close: websocket.StatusNormalClosure, Whole: maxEnvelope, Skipped: maxSkipped, Head: head,
	})
	if err != nil {
		return nil, err
	}
	c := &conn{Socket: sock, to: m, greeted: make(chan struct{}), leave: make(chan struct{}), ended: make(chan struct{})}
	m.open.Add(1)
	m.wg.Go(func() {
		defer close(c.ended)
		defer m.open.Add(-1)
		c.err = sock.Serve(ctx, c)
		c.falls()
	})
	select {
	case <-c.greeted:
		return c, nil
	case <-c.ended:
		return nil, c.err
	}
}

// stands notes in the status and the log that Slack has greeted c, and whether Slack counts a socket of another
// program.
func (m *mode) stands(c *conn) {
	m.ever = true
	m.suspicion++
	if c.connections <= int(m.open.Load()) {
		m.suspicion = 0
	}
	if m.suspicion > 1 {
		m.Status.Set(platforms.Degraded, OtherProgram+": Slack gives each of the two only some of the messages; stop the other one, or make it an app of its own")
		m.Log.Warn("another program has a socket of this app", "sockets", c.connections)
	} else {
		m.Status.Set(platforms.Connected, "")
		m.Log.Info("slack socket stands")
	}
}

// check returns a channel that delivers when a new socket is to show whether another program still has one; nil if
// nothing hints at that.
func (m *mode) check() <-chan time.Time {
	if m.suspicion == 0 {
		return nil
	}
	return time.After(min(m.Check<<min(m.suspicion-1, 10), 30*m.Check))
}

// trouble reports in the status and the log that an attempt failed or a connection was lost, and pauses, at most until
// cur ends. While cur stands nothing is lost, so the state stays. It returns an error only when trying again cannot
// help.
func (m *mode) trouble(ctx context.Context, err error, cur *conn) error {
	if errors.Is(err, relay.ErrBadCredentials) {
		return err
	}
	delay, state := m.Retry.Next(), platforms.Connecting
	reason := "the connection to Slack was lost: " + words(err)
	if m.Retry.Failures > patientFailures && m.ever {
		state = platforms.Degraded
	}
	var f *httpcall.Fault
	switch {
	case errors.As(err, &f) && f.RetryAfter > 0:
		state, delay = platforms.Degraded, max(delay, f.RetryAfter)
		reason = "Slack asked to be left alone for " + f.RetryAfter.String()
	case f != nil && f.Status != 0:
		state, reason = platforms.Degraded, "Slack opens no socket: "+f.Error()
	case f != nil:
		reason = "Slack cannot be reached: " + f.Error()
	case errors.Is(err, ErrFull):
		state, reason = platforms.Degraded, "more comes from Slack than the disk takes; Slack repeats it"
	case errors.Is(err, errDisabled):
		state, delay = platforms.Degraded, m.Retry.Max
		reason = "Socket Mode is switched off; switch it on in the app's settings at Slack"
	}
	if cur == nil || cur.over() {
		m.Status.Set(state, reason)
		m.Status.SetRetryAt(time.Now().Add(delay))
	}
	m.Log.Warn("slack socket trouble; trying again", "reason", reason, "in", delay)
	t := time.NewTimer(delay)
	defer t.Stop()
	over := (<-chan struct{})(nil)
	if cur != nil {
		over = cur.ended
	}
	select {
	case <-t.C:
	case <-over:
	case <-ctx.Done():
	}
	return nil
}

// words returns the text of err without the reason for a close, which is Slack's text.
func words(err error) string {
	var ce websocket.CloseError
	if errors.As(err, &ce) {
		return fmt.Sprintf("closed with %d", ce.Code)
	}
	return err.Error()
}
