// Package socket is one WebSocket to a chat network: it is dialled, read message by message, kept alive by heartbeats,
// and closed. The network interprets the messages, and decides what follows an end.
//
// Invariants:
//
//  1. No read is without a deadline, from the dial to the last byte of a message.
//  2. No error contains the address, which may hold a credential.
//  3. When Serve returns, all that the socket started has ended.
package socket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// hangUpWait is how long the network may take to answer our close.
const hangUpWait = 2 * time.Second

// beatPause is the least pause between two heartbeats, however often the network asks for one.
const beatPause = time.Second

// Why this side ended a connection.
var (
	ErrZombie = errors.New("a heartbeat was not answered")
	ErrSilent = errors.New("nothing came for too long")
)

// Options are the settings of a socket.
type Options struct {
	HTTP   *http.Client // that dials
	Header http.Header
	// Wait bounds the dial, one write, and the rest of a message that has begun.
	Wait time.Duration
	// Close is the code with which this side closes.
	Close websocket.StatusCode
	// Whole is the size of the largest message that is read, in bytes. Of a larger message, up to Skipped, only the
	// first Head bytes are handed on.
	Whole, Skipped, Head int64
}

// Socket is one connection, from the dial to its end. Serve must be called; the other methods may be called from any
// goroutine.
type Socket struct {
	Options
	conn *websocket.Conn

	wg   sync.WaitGroup
	once sync.Once
	life context.Context         // of every read and write
	stop context.CancelCauseFunc // ends life
}

// Dial connects to address, within o.Wait. what names the other side in the error.
func Dial(ctx context.Context, address, what string, o Options) (*Socket, error) {
	soon, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	conn, resp, err := websocket.Dial(soon, address, &websocket.DialOptions{HTTPClient: o.HTTP, HTTPHeader: o.Header})
	if err != nil {
		if resp != nil {
			return nil, fmt.Errorf("connect to %s: HTTP %d", what, resp.StatusCode)
		}
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, fmt.Errorf("connect to %s: %w", what, err)
	}
	conn.SetReadLimit(-1) // the method read has its own limit
	s := &Socket{Options: o, conn: conn}
	s.life, s.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	return s, nil
}

// Reader takes the messages of a socket. The reading goroutine calls both methods; an error ends the connection.
type Reader interface {
	// Allowance returns how long to wait for the beginning of the next message.
	Allowance() time.Duration
	// Take handles one message. whole is false if the message was too large: then raw is its beginning.
	Take(ctx context.Context, raw []byte, whole bool) error
}

// Serve reads until the connection ends, and returns why, after all its goroutines have ended. When ctx ends it closes
// the connection. It is called once.
func (s *Socket) Serve(ctx context.Context, to Reader) error {
	unhook := context.AfterFunc(ctx, func() { s.HangUp(ctx.Err()) })
	var err error
	for err == nil {
		var raw []byte
		var whole bool
		if raw, whole, err = s.read(to.Allowance()); err == nil {
			err = to.Take(s.life, raw, whole)
		}
	}
	unhook()
	s.HangUp(err)
	for reading := error(nil); reading == nil; { // until the network's answer to the close
		_, _, reading = s.read(s.Wait)
	}
	s.wg.Wait()
	if code := websocket.CloseStatus(err); code == -1 || code == s.Close {
		err = context.Cause(s.life) // the reason for our own close
	}
	return err
}

// HangUp closes the connection, which ends after hangUpWait whatever the network answers. The first cause counts.
func (s *Socket) HangUp(cause error) {
	s.once.Do(func() {
		s.wg.Go(func() {
			timer := time.AfterFunc(hangUpWait, func() { s.stop(cause) })
			_ = s.conn.Close(s.Close, "")
			timer.Stop()
			s.stop(cause)
		})
	})
}

// read returns the next message. whole is false if it was too large: then raw is its beginning.
func (s *Socket) read(allowance time.Duration) (raw []byte, whole bool, err error) {
	ctx, cancel := context.WithCancelCause(s.life)
	defer cancel(nil)
	timer := time.AfterFunc(allowance, func() { cancel(ErrSilent) })
	defer timer.Stop()
	defer func() {
		if err != nil && errors.Is(context.Cause(ctx), ErrSilent) {
			err = ErrSilent
		}
	}()
	_, r, err := s.conn.Reader(ctx)
	if err != nil {
		return nil, false, err
	}
	timer.Reset(s.Wait)
	raw, err = io.ReadAll(io.LimitReader(r, s.Whole+1))
	if err != nil || int64(len(raw)) <= s.Whole {
		return raw, true, err
	}
	for left := s.Skipped; left > 0; {
		timer.Reset(s.Wait)
		n, err := io.CopyN(io.Discard, r, 1<<20)
		if errors.Is(err, io.EOF) {
			return raw[:s.Head], false, nil
		}
		if err != nil {
			return nil, false, err
		}
		left -= n
	}
	return nil, false, fmt.Errorf("what came is too large: more than %d bytes", s.Skipped)
}

// Beat makes beat send a heartbeat every interval, and one for each nudge, until the connection ends. The first one
// comes at a random time, so that a thousand bots do not beat at once after an outage. An error of beat ends the
// connection; regular is true if the heartbeat before had the whole interval to be answered.
func (s *Socket) Beat(interval time.Duration, nudge <-chan struct{}, beat func(ctx context.Context, regular bool) error) {
	s.wg.Go(func() {
		timer := time.NewTimer(rand.N(interval))
		defer timer.Stop()
		var last time.Time
		for {
			asked := false
			select {
			case <-s.life.Done():
				return
			case <-nudge:
				asked = true
			case <-timer.C:
			}
			if asked && time.Since(last) < beatPause {
				continue
			}
			last = time.Now()
			if err := beat(s.life, !asked); err != nil {
				s.HangUp(err)
				return
			}
			timer.Reset(interval)
		}
	})
}

// Send writes v as JSON. It takes at most Wait.
func (s *Socket) Send(ctx context.Context, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("what is sent: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Wait)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, raw)
}

// Ping sends a ping of the WebSocket protocol, and waits for its answer, at most Wait.
func (s *Socket) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Wait, ErrZombie)
	defer cancel()
	if err := s.conn.Ping(ctx); err != nil {
		if errors.Is(context.Cause(ctx), ErrZombie) {
			return ErrZombie
		}
		return err
	}
	return nil
}
