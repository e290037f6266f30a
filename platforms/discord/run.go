package discord

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxAcks is how many interactions are answered at once. One more waits for one of them, as long
	// as its own time allows.
	maxAcks = 256
	// steady is how long a connection must last to count as a good one.
	steady = time.Minute
	// maxResumes is how many resumes in a row may fail, with Discord in reach, before a new session.
	maxResumes = 5
	// maxDetours is how many dials of the resume address in a row may fail before the general one is
	// used.
	maxDetours = 2
	// askTimeout bounds the question where the gateway is.
	askTimeout = 15 * time.Second
)

// runner is one Run: the loop that keeps a connection, and what only it touches.
type runner struct {
	*Platform
	queue *queue
	slots chan struct{} // capacity maxAcks: one is taken per interaction being answered
	wg    *sync.WaitGroup

	live    session // where a resume would go on; ID is empty when there is nothing to resume
	wait    backoff.Backoff
	resumes int  // in a row that failed
	detours int  // dials of the resume address in a row that failed
	ever    bool // a connection was greeted

	// Of the connection at hand.
	resuming bool
	sock     *socket
}

// Run implements platforms.Platform. It owns the feeder, the commands' goroutine, one goroutine per
// interaction being answered, and three per socket.
func (p *Platform) Run(ctx context.Context, in platforms.Inbox) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer p.closeIdle()
	defer wg.Wait()
	defer cancel()

	p.board.is(platforms.Connecting, "")
	p.recall(ctx, in)
	r := &runner{
		Platform: p,
		queue:    newQueue(),
		slots:    make(chan struct{}, maxAcks),
		wg:       &wg,
		live:     p.memory.read().Session,
		wait:     backoff.Backoff{First: p.opts.retryWait, Max: p.opts.retryMax},
	}
	f := &feeder{Platform: p, in: in, queue: r.queue}
	// The feeder ends after the socket, so that nothing is put behind its back.
	feeding, stopFeeding := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFeeding()
	wg.Go(func() { f.run(feeding) })
	wg.Go(func() { p.runCommands(ctx) })

	err := r.loop(ctx)
	switch {
	case errors.Is(err, relay.ErrBadCredentials):
		p.board.is(platforms.BadCredentials, "Discord does not accept the token; check the token file, "+
			"or reset the token in the developer portal under Bot")
	case err != nil:
		p.board.is(platforms.Stopped, err.Error())
	default:
		p.board.is(platforms.Stopped, "")
	}
	return err
}

func (p *Platform) closeIdle() {
	p.rest.closeIdle()
	p.acks.CloseIdleConnections()
	p.sockets.CloseIdleConnections()
}

// recall loads the state. A store that does not answer is waited for; a state that makes no sense is
// forgotten.
func (p *Platform) recall(ctx context.Context, in platforms.Inbox) {
	wait := backoff.Backoff{First: p.opts.retryWait, Max: p.opts.retryMax}
	for ctx.Err() == nil {
		raw, err := in.Cursor(ctx)
		if err == nil {
			s, err := readState(raw, p.base)
			if err != nil {
				p.log.Warn("discord state makes no sense; beginning a new session", "err", err)
			}
			p.memory.recall(s, raw)
			p.board.named(s.Name)
			return
		}
		p.board.is(platforms.Connecting, "the stored position cannot be read")
		delay := wait.Next()
		p.log.Warn("discord position not read; trying again", "in", delay, "err", err)
		backoff.Pause(ctx, delay)
	}
}

// loop keeps a connection until ctx ends (then it returns nil) or trying again cannot help.
func (r *runner) loop(ctx context.Context) error {
	for r.queue.relax(ctx) {
		err := r.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := r.after(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// once makes one connection and serves it to its end. It returns why it ended.
func (r *runner) once(ctx context.Context) error {
	address, err := r.address(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := r.dial(ctx, address); err != nil {
		if r.resuming && r.live.URL != "" {
			r.detours++
		}
		return err
	}
	r.detours = 0
	err = r.sock.serve(ctx)
	switch {
	case r.sock.greeted.Load():
		r.resumes = 0
		if time.Since(began) >= steady {
			r.wait.Reset()
		}
	case r.resuming && r.sock.interval != 0:
		r.resumes++
	}
	return err
}

// address decides whether to resume, and where to connect. For a new session it waits until one may
// be begun.
func (r *runner) address(ctx context.Context) (string, error) {
	r.resuming = r.live.ID != "" && r.resumes < maxResumes
	if r.resuming && r.live.URL != "" && r.detours < maxDetours {
		return r.live.URL, nil
	}
	for {
		address, err := r.ask(ctx)
		if err != nil || r.resuming {
			return address, err
		}
		now := time.Now()
		b := r.memory.read().Budget
		at, reason := b.due(now, r.opts.identifyWait)
		if !at.After(now) {
			return address, nil
		}
		if at.Sub(now) > time.Minute {
			r.board.is(platforms.Degraded, reason)
			r.log.Warn("discord session not begun yet", "reason", reason)
		}
		if !backoff.Pause(ctx, at.Sub(now)+rand.N(time.Second+at.Sub(now)/20)) {
			return "", ctx.Err()
		}
	}
}

// ask asks Discord where its gateway is, and how many sessions it grants.
func (r *runner) ask(ctx context.Context) (address string, err error) {
	var answer struct {
		URL   string `json:"url"`
		Limit *struct {
			Remaining  int   `json:"remaining"`
			ResetAfter int64 `json:"reset_after"` // milliseconds
		} `json:"session_start_limit"`
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := r.rest.do(ctx, http.MethodGet, "GET /gateway/bot", "/gateway/bot", nil, &answer); err != nil {
		return "", err
	}
	if l := answer.Limit; l != nil {
		after := min(max(time.Duration(l.ResetAfter)*time.Millisecond, 0), day)
		r.memory.change(false, func(s *state) { s.Budget.granted(l.Remaining, after, time.Now()) })
	}
	return answer.URL, nil
}

// dial connects to address.
func (r *runner) dial(ctx context.Context, address string) error {
	target, err := r.gatewayURL(address)
	if err != nil {
		return err
	}
	dialCtx, cancel := context.WithTimeout(ctx, r.opts.answerWait)
	defer cancel()
	conn, resp, err := websocket.Dial(dialCtx, target, &websocket.DialOptions{
		HTTPClient: r.sockets,
		HTTPHeader: http.Header{"User-Agent": {userAgent}},
	})
	if err != nil {
		if resp != nil {
			return fmt.Errorf("connect to the gateway: HTTP %d", resp.StatusCode)
		}
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return fmt.Errorf("connect to the gateway: %w", err)
	}
	conn.SetReadLimit(-1) // socket.read has its own
	r.sock = &socket{conn: conn, to: r, wait: r.opts.answerWait, nudge: make(chan struct{}, 1)}
	if r.resuming {
		r.sock.seq.Store(r.live.Seq)
	}
	return nil
}

// gatewayURL completes the address of the gateway. The token goes there, so it must be encrypted
// wherever the API is.
func (r *runner) gatewayURL(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "wss" && (u.Scheme != "ws" || !strings.HasPrefix(r.base, "http:")) {
		return "", errors.New("the gateway's address makes no sense")
	}
	q := u.Query()
	q.Set("v", apiVersion)
	q.Set("encoding", "json")
	q.Del("compress") // see socket
	u.RawQuery = q.Encode()
	if u.Path == "" {
		u.Path = "/"
	}
	return u.String(), nil
}

// greeting implements listener.
func (r *runner) greeting() command {
	token := r.rest.token.RevealString()
	if r.resuming {
		return resume(token, r.live)
	}
	// Stored at once, but not waited for: a program that dies in between is not the one that is
	// restarted a hundred times, and what Discord says about the budget holds anyway.
	r.memory.change(true, func(s *state) { s.Budget.spend(time.Now()) })
	return identify(token)
}

// dispatch implements listener.
func (r *runner) dispatch(ctx context.Context, p packet) error {
	r.board.heard(time.Now())
	i := item{seq: p.Seq}
	switch p.Kind {
	case kindReady:
		if err := r.begin(p, &i); err != nil {
			return err
		}
	case kindResumed:
		r.up("discord session resumed")
	case kindMessage:
		i.kind, i.data = p.Kind, p.Data
	case kindInteraction:
		i.data = withoutToken(p.Data)
		if i.press, i.err = decodeInteraction(p.Data); i.err == nil {
			i.kind = p.Kind
			r.answer(ctx, i.press) // before anything that could wait
		}
	default:
		if i.roster, i.err = r.cache.apply(p.Kind, p.Data); i.err != nil {
			i.data = p.Data[:min(len(p.Data), headBytes)]
		}
	}
	return r.enqueue(i)
}

// skipped implements listener. Only a message's beginning is kept: what other payloads begin with
// may be an interaction's token, which cannot be cut out of half an object.
func (r *runner) skipped(head packet, raw []byte) error {
	r.log.Warn("discord payload skipped: too large", "kind", head.Kind, "seq", head.Seq)
	if head.Op != opDispatch {
		return nil
	}
	if head.Kind != kindMessage {
		raw = nil
	}
	return r.enqueue(item{seq: head.Seq, data: raw, err: fmt.Errorf("a %q of more than %d bytes", head.Kind, maxPayload)})
}

// enqueue hands an item to the feeder. From here on it survives the connection, so the next one
// resumes behind it.
func (r *runner) enqueue(i item) error {
	r.live.Seq = max(r.live.Seq, i.seq)
	if i.seq == 0 {
		i.seq = r.live.Seq
	}
	if !r.queue.put(i) {
		return errFull
	}
	return nil
}

// begin deals with READY: a new session.
func (r *runner) begin(p packet, i *item) error {
	d, err := decodeReady(p.Data)
	if err != nil {
		return fmt.Errorf("%w: READY: %w", errNonsense, err)
	}
	if _, err := r.gatewayURL(d.ResumeURL); err != nil {
		d.ResumeURL = ""
	}
	r.live = session{ID: d.SessionID, URL: d.ResumeURL, Seq: p.Seq}
	begun := r.live
	i.begun = &begun
	i.roster, _ = r.cache.apply(p.Kind, p.Data)
	r.memory.change(true, func(s *state) { s.Application, s.Name = d.Application.ID, d.User.Name })
	r.board.named(d.User.Name)
	r.up("discord session begun")
	return nil
}

// up notes that events flow.
func (r *runner) up(what string) {
	r.ever = true
	r.board.is(platforms.Connected, "")
	r.log.Info(what)
}

// errNoTurn: an interaction could not be answered in time, because too many others were.
var errNoTurn = errors.New("too many at once")

// inTurn calls do once fewer than maxAcks are under way, if that is before ctx's end.
func (r *runner) inTurn(ctx context.Context, do func() error) error {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
		return do()
	case <-ctx.Done():
		return errNoTurn
	}
}

// answer acknowledges an interaction on a goroutine of its own: Discord waits three seconds, the
// disk may take longer. Whoever answers it waits for that.
func (r *runner) answer(ctx context.Context, i *interaction) {
	end := r.callbacks.begin(i.id.String())
	r.wg.Go(func() {
		// Also while we stop: a person waits for it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackBudget)
		defer cancel()
		err := r.inTurn(ctx, func() error { return r.acknowledge(ctx, i) })
		end(err)
		if err != nil {
			r.log.Warn("discord interaction not acknowledged", "err", err)
		}
	})
}
