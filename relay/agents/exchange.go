package agents

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
	"github.com/hermes-connector/hermes-connector/store/callers"
)

// exchangeWait is how long an exchange waits for the answer if the caller does not say how long.
const exchangeWait = 25 * time.Second

// exchanged is the answer to an exchange.
type exchanged struct {
	CorrelationID string   `json:"correlation_id"`
	Content       string   `json:"content"`
	SentAt        int64    `json:"sent_at"`
	AgentID       string   `json:"agent_id"`
	Warnings      []string `json:"warnings,omitempty"`
}

// exchange hands a message to an agent and waits for the answer. Exchanges in one chat come one after the other.
func (d *Desk) exchange(ctx context.Context, r *request) (any, error) {
	h, p, err := d.read(ctx, r)
	if err != nil {
		return nil, err
	}
	wait, err := span("timeout_ms", p.TimeoutMS, exchangeWait, time.Millisecond, holdMost)
	if err == nil && h.correlation == "" {
		err = routes.Refused(http.StatusBadRequest, "meta.correlation_id: missing")
	}
	if err != nil {
		return nil, err
	}
	if !h.to.named { // a new session, so that exchanges at the same time do not mix
		h.to.session = "x-" + fmt.Sprintf("%x", sum(h.correlation)[:16])
	}
	done, err := d.hold(r.caller.Name)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errNoReply)
	defer cancel()
	over, err := d.turns.take(ctx, h.to.chat())
	if err != nil {
		return nil, err
	}
	defer over()
	reply, warnings, err := d.ask(ctx, r.caller, h)
	if err != nil {
		return nil, err
	}
	return exchanged{h.correlation, reply.Content, milli(reply.At), string(h.to.Agent), warnings}, nil
}

// errNoReply is the answer to an exchange if the agent has not replied in time.
var errNoReply error = routes.Refused(http.StatusGatewayTimeout, "no reply")

// ask hands over h and waits for the agent's final answer until ctx ends. If ctx ends because the caller's time is
// over, ask returns the last answer so far, if there is one, with a warning.
func (d *Desk) ask(ctx context.Context, c caller, h handed) (last callers.Reply, warnings []string, err error) {
	said, done := d.bot.awaitReplies(c.Name)
	defer done()
	rec, as, err := d.hand(ctx, c, h)
	switch {
	case err != nil && ctx.Err() != nil:
		return last, nil, context.Cause(ctx)
	case err != nil:
		return last, nil, err
	case as == other:
		return last, nil, routes.Refused(http.StatusBadRequest, "meta.dispatch_id: it was used for another payload")
	}
	for {
		// The answers are read from the database, so that a repetition gets them, too.
		all, err := d.db.Callers.Replies(context.WithoutCancel(ctx), callers.ReplyFilter{Caller: c.Name, Event: rec.Event})
		if err != nil {
			return last, nil, err
		}
		for _, r := range all {
			if last = r; r.Final {
				return last, nil, nil
			}
		}
		select {
		case <-said:
			continue
		case <-ctx.Done():
		}
		if last.Content == "" || context.Cause(ctx) != errNoReply {
			return last, nil, context.Cause(ctx)
		}
		return last, []string{"the agent did not say that it is done: this is the last that it said in time"}, nil
	}
}

// turns makes exchanges of a chat come one after the other. The zero value is ready.
type turns struct {
	mu    sync.Mutex // guards the field below
	lines map[relay.ChatID]*line
}

// line is the queue of one chat. users counts the exchanges that wait in it or have the turn; busy is full while one
// has the turn.
type line struct {
	busy  chan struct{} // capacity 1
	users int
}

// take waits for a chat's turn until ctx ends. The caller calls over when the turn ends.
func (ts *turns) take(ctx context.Context, chat relay.ChatID) (over func(), err error) {
	ts.mu.Lock()
	if ts.lines == nil {
		ts.lines = make(map[relay.ChatID]*line)
	}
	l := ts.lines[chat]
	if l == nil {
		l = &line{busy: make(chan struct{}, 1)}
		ts.lines[chat] = l
	}
	l.users++
	ts.mu.Unlock()
	leave := func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(ts.lines, chat)
		}
	}
	select {
	case l.busy <- struct{}{}:
		return func() { <-l.busy; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
