package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	// maxPayload is the largest payload that is read, in bytes. A server with every channel and role it may
	// have stays below it. A larger payload is skipped: after a close the resume would bring it again.
	maxPayload = 32 << 20
	// maxSkipped is the largest payload that is skipped.
	maxSkipped = 256 << 20
	// HeadBytes are kept of a payload that is skipped, or makes no sense.
	HeadBytes = 4 << 10
	// hangUpWait is how long Discord has to answer our close.
	hangUpWait = 2 * time.Second
	// beatPause is the least pause between two heartbeats, however often Discord asks for one: it allows
	// 120 payloads a minute.
	beatPause = time.Second
)

// Why this side ended a connection.
var (
	errReconnect = errors.New("asked to connect again")
	errZombie    = errors.New("a heartbeat was not answered")
	errSilent    = errors.New("nothing came for too long")
	errNonsense  = errors.New("what came makes no sense")
	errRejected  = errors.New("the session was rejected for now")
	errUnknown   = errors.New("the session is no longer known")
)

// socket is one connection to the gateway, from the dial to its end. It asks for no compression, which would
// save little (BenchmarkCompression) and add a state that one lost byte ruins.
type socket struct {
	// Set once, by dial.
	conn  *websocket.Conn
	to    *Gateway
	wait  time.Duration // for an answer, and for the rest of a payload
	nudge chan struct{} // capacity 1: one heartbeat answers any number of requests for one

	seq     atomic.Int64 // newest sequence received
	unacked atomic.Bool  // a heartbeat is unanswered
	greeted atomic.Bool  // READY or RESUMED came

	// Of the goroutine that reads.
	interval time.Duration // between heartbeats; 0 until the hello
	patience time.Time     // when READY or RESUMED must have come; zero until the hello

	wg   sync.WaitGroup
	once sync.Once
	stop context.CancelCauseFunc // ends every read and write
}

// serve reads until the connection ends, and returns why, after all its goroutines have ended. When ctx ends
// it closes the connection and leaves the session alive.
func (s *socket) serve(ctx context.Context) error {
	inner, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	s.stop = stop
	unhook := context.AfterFunc(ctx, func() { s.hangUp(ctx.Err()) })
	var err error
	for err == nil {
		var raw []byte
		var whole bool
		if raw, whole, err = s.read(inner); err == nil {
			err = s.take(inner, raw, whole)
		}
	}
	unhook()
	s.hangUp(err)
	for reading := error(nil); reading == nil; { // until Discord's answer to the close
		_, _, reading = s.read(inner)
	}
	s.wg.Wait()
	if code := websocket.CloseStatus(err); code == -1 || code == closeAgain {
		err = context.Cause(inner) // what made us hang up
	}
	return err
}

// hangUp closes the connection, which ends after hangUpWait whatever Discord answers. The first cause counts.
func (s *socket) hangUp(cause error) {
	s.once.Do(func() {
		s.wg.Go(func() {
			timer := time.AfterFunc(hangUpWait, func() { s.stop(cause) })
			_ = s.conn.Close(closeAgain, "")
			timer.Stop()
			s.stop(cause)
		})
	})
}

// read returns the next payload. whole is false if it was too large: then raw is its beginning.
func (s *socket) read(ctx context.Context) (raw []byte, whole bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(s.allowance(), func() { cancel(errSilent) })
	defer timer.Stop()
	defer func() {
		if err != nil && errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
	}()
	_, r, err := s.conn.Reader(ctx)
	if err != nil {
		return nil, false, err
	}
	timer.Reset(s.wait)
	raw, err = io.ReadAll(io.LimitReader(r, maxPayload+1))
	if err != nil || len(raw) <= maxPayload {
		return raw, true, err
	}
	for left := int64(maxSkipped); left > 0; {
		timer.Reset(s.wait)
		n, err := io.CopyN(io.Discard, r, 1<<20)
		if errors.Is(err, io.EOF) {
			return raw[:HeadBytes], false, nil
		}
		if err != nil {
			return nil, false, err
		}
		left -= n
	}
	return nil, false, fmt.Errorf("%w: a payload of more than %d bytes", errNonsense, maxSkipped)
}

// allowance is how long the next payload may take to begin.
func (s *socket) allowance() time.Duration {
	switch {
	case s.interval == 0:
		return s.wait
	case !s.greeted.Load():
		return max(time.Until(s.patience), 0)
	}
	// Every interval brings the answer to a heartbeat. heartbeats notices first when one does not come.
	return 2*s.interval + s.wait
}

// take deals with one payload. Any kind may come at any time, also before the hello.
func (s *socket) take(ctx context.Context, raw []byte, whole bool) error {
	if !whole {
		head := decodeHead(raw)
		s.heard(head.Seq)
		return s.to.skipped(head, raw)
	}
	p, err := decodePacket(raw)
	if err != nil {
		return fmt.Errorf("%w: %w", errNonsense, err)
	}
	switch p.Op {
	case opHello:
		return s.hello(ctx, p.Data)
	case opHeartbeat:
		return s.beatNow(ctx)
	case opHeartbeatAck:
		s.unacked.Store(false)
	case opReconnect:
		return errReconnect
	case opInvalidSession:
		var resumable bool
		if _ = json.Unmarshal(p.Data, &resumable); resumable { // what makes no sense is a no
			return errRejected
		}
		return errUnknown
	case opDispatch:
		s.heard(p.Seq)
		if p.Kind == kindReady || p.Kind == kindResumed {
			s.greeted.Store(true)
		}
		return s.to.dispatch(ctx, p)
	}
	return nil
}

// heard notes a dispatch's sequence. While dispatches come, a resume is at work.
func (s *socket) heard(seq int64) {
	s.patience = time.Now().Add(s.wait)
	s.seq.Store(max(s.seq.Load(), seq))
}

// hello starts the heartbeats and says who we are.
func (s *socket) hello(ctx context.Context, data []byte) error {
	interval, err := decodeHello(data)
	switch {
	case err != nil:
		return fmt.Errorf("%w: hello: %w", errNonsense, err)
	case s.interval != 0:
		return nil // once is enough
	}
	s.interval, s.patience = interval, time.Now().Add(s.wait)
	s.wg.Go(func() { s.heartbeats(ctx, interval) })
	return s.send(ctx, s.to.greeting())
}

// heartbeats sends heartbeats until ctx ends. When one is not answered before the next, it hangs up.
func (s *socket) heartbeats(ctx context.Context, interval time.Duration) {
	timer := time.NewTimer(rand.N(interval)) // so that a thousand bots do not beat at once after an outage
	defer timer.Stop()
	var last time.Time
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-s.nudge:
			asked = true
		case <-timer.C:
		}
		if asked && time.Since(last) < beatPause {
			continue
		}
		if !asked && s.unacked.Load() {
			s.hangUp(errZombie)
			return
		}
		s.unacked.Store(true)
		last = time.Now()
		if err := s.send(ctx, heartbeat(s.seq.Load())); err != nil {
			s.hangUp(err)
			return
		}
		timer.Reset(interval)
	}
}

// beatNow answers Discord's request for a heartbeat.
func (s *socket) beatNow(ctx context.Context) error {
	if s.interval == 0 { // no hello yet: nobody sends them
		return s.send(ctx, heartbeat(s.seq.Load()))
	}
	select {
	case s.nudge <- struct{}{}:
	default: // one is asked for already
	}
	return nil
}

// send writes one payload. It takes at most as long as an answer may.
func (s *socket) send(ctx context.Context, c command) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("gateway payload: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, raw)
}
