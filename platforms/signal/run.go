package signal

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// silence is how long a stream may be still: the daemon writes a line every 15 s.
	silence = 45 * time.Second
	// maxLine bounds an event, in bytes.
	maxLine = 16 << 20
)

var (
	errSilent = errors.New("the daemon was silent for too long")
	errEnded  = errors.New("the daemon ended the stream")
)

// runner is one Run.
type runner struct {
	*Bot
	in   platforms.Inbox
	wait backoff.Backoff
	said string // about what is wrong, in the log
}

// Run implements platforms.Bot. No trouble ends it: an account that the daemon does not have may be linked there any time.
func (p *Bot) Run(ctx context.Context, in platforms.Inbox) error {
	defer p.daemon.calls.HTTP.CloseIdleConnections()
	defer p.daemon.streams.HTTP.CloseIdleConnections()
	l := &runner{Bot: p, in: in, wait: p.wait}
	p.status.Set(platforms.Connecting, "")
	for ctx.Err() == nil {
		err := l.listen(ctx)
		if ctx.Err() != nil {
			break
		}
		l.trouble(ctx, err)
	}
	p.status.Set(platforms.Stopped, "")
	return nil
}

// listen hands in what one stream brings, and returns why it ended.
func (l *runner) listen(ctx context.Context) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	still := time.AfterFunc(l.silence, func() { cancel(errSilent) })
	defer still.Stop()
	stream, err := l.daemon.events(ctx)
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	l.status.Set(platforms.Connected, "")
	l.wait.Reset()
	if l.said != "" {
		l.log.Info("signal-cli sends events again")
		l.said = ""
	}
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, maxLine)
	var data strings.Builder
	for still.Reset(l.silence); lines.Scan(); still.Reset(l.silence) {
		line := lines.Text()
		if part, ok := strings.CutPrefix(line, "data:"); ok {
			data.WriteString(strings.TrimPrefix(part, " "))
			continue
		}
		if line != "" || data.Len() == 0 {
			continue // the event's name, or a sign of life
		}
		still.Stop() // what follows is the disk's affair
		if !l.take(ctx, data.String()) {
			return context.Cause(ctx)
		}
		data.Reset()
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err := lines.Err(); err != nil {
		return cut("events", err)
	}
	return errEnded
}

// events opens the stream.
func (d *daemon) events(ctx context.Context) (*http.Response, error) {
	const what = "events"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+"/api/v1/events?account="+url.QueryEscape(d.account), nil)
	if err != nil {
		return nil, &httpcall.Fault{What: what, Sent: httpcall.Never, Message: "the address makes no request"}
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := d.streams.HTTP.Do(r)
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), cut(what, err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	_ = resp.Body.Close()
	err = answered(httpcall.Answer{Status: resp.StatusCode}, what, nil)
	if f := httpcall.FaultOf(err); f.Status == http.StatusBadRequest {
		f.Detail = noAccount
	}
	return nil, err
}

// take hands in one event, until it is taken, and returns true; false when ctx ended first.
func (l *runner) take(ctx context.Context, data string) bool {
	b, some := l.batch(data)
	if !some {
		return true
	}
	l.status.EventReceived()
	retry := l.Bot.wait
	return retry.Keep(ctx, func() error {
		err := l.in.Accept(ctx, b)
		if err == nil {
			l.status.SetStuck("")
		}
		return err
	}, func(err error, in time.Duration) {
		l.status.SetStuck("what Signal sent cannot be stored; nothing more is read meanwhile")
		l.log.Warn("signal event not stored; trying again", "in", in, "err", err)
	})
}

// batch is what an event of the stream brings; false: nothing.
func (l *runner) batch(data string) (b platforms.Batch, some bool) {
	var r received
	if err := httpcall.Decode([]byte(data), &r); err != nil {
		l.log.Warn("signal event makes no sense; kept in quarantine", "err", err)
		return platforms.Batch{Undecodable: []platforms.Undecodable{{Raw: []byte(data), Err: err}}}, true
	}
	if r.Account != "" && r.Account != l.account { // a daemon of one account does not look at ours
		l.status.Set(platforms.Degraded, "the daemon at "+l.daemon.host()+" has another account than "+l.account)
		return b, false
	}
	if r.Exception != nil {
		l.log.Warn("signal-cli could not read a message", "type", relay.Shown(r.Exception.Type))
	}
	if r.Envelope == nil {
		return b, false
	}
	if m := r.Envelope.Data; m != nil && m.Group != nil && m.Group.Type == "UPDATE" {
		b.Roster = []platforms.RosterChange{{Chat: relay.ChatID("group:" + m.Group.ID)}}
	}
	if ev := l.event(r.Envelope); ev != nil {
		b.Events = []relay.Event{*ev}
	}
	return b, len(b.Events)+len(b.Roster) > 0
}

// trouble says in the status and the log why the stream ended, and pauses.
func (l *runner) trouble(ctx context.Context, err error) {
	in := l.wait.Next()
	state, reason := platforms.Degraded, "signal-cli does not send events: "+err.Error()
	switch f := httpcall.FaultOf(err); {
	case f.Detail == noAccount:
		reason = "the daemon at " + l.daemon.host() + " has no account " + l.account + ": link or register it with signal-cli"
	case f.Status != 0:
		reason = "the daemon at " + l.daemon.host() + " answers with a fault: " + f.Error()
	case f.What != "":
		reason = "signal-cli's daemon cannot be reached at " + l.daemon.host() + ": " + f.Error()
	}
	l.status.Set(state, reason)
	l.status.SetRetryAt(time.Now().Add(in))
	if l.said != reason {
		l.log.Warn("no events from signal-cli; trying again", "in", in, "err", err)
		l.said = reason
	}
	backoff.Pause(ctx, in)
}
