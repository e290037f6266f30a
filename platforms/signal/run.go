package signal

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
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
	// silence is how long a stream may be silent: the daemon writes a line every 15 s.
	silence = 45 * time.Second
	// maxLine bounds an event, in bytes: a text has 64 KB at most.
	maxLine = 1 << 20
	// maxWaiting is how many events may wait to be stored together. Beyond that nothing is read.
	maxWaiting = 64
	// lastTry is how long the last events may take to be stored when the bot is to stop.
	lastTry = 3 * time.Second
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
	said string // the fault that was logged last; empty: none since events came
}

// Run implements platforms.Bot. No trouble ends it: an account that the daemon does not have may be linked there any
// time.
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

// listen hands in the events of one stream, and returns why it ended. A goroutine reads the stream, so that events that
// arrive while others are being stored are handed in together.
func (l *runner) listen(ctx context.Context) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	open, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	still := time.AfterFunc(l.silence, func() { cancel(errSilent) })
	defer still.Stop()
	stream, err := l.daemon.events(open)
	if err != nil {
		return err
	}
	l.status.Set(platforms.Connected, "")
	l.wait.Reset()
	if l.said != "" {
		l.log.Info("signal-cli sends events again")
		l.said = ""
	}
	events, ended := make(chan string, maxWaiting), make(chan error, 1)
	go func() {
		defer close(events)
		ended <- read(stream.Body, events, still, l.silence)
	}()
	for ev := range events {
		l.take(ctx, gather(ev, events))
	}
	_ = stream.Body.Close()
	return cmp.Or(context.Cause(open), <-ended, errEnded)
}

// read reads events until the stream ends; the end of its context ends the stream. still is the timer that ends a
// stream that is silent for too long. The timer does not run while an event waits to be taken.
func read(stream io.Reader, events chan<- string, still *time.Timer, silence time.Duration) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxLine)
	var data strings.Builder
	for still.Reset(silence); lines.Scan(); still.Reset(silence) {
		line := lines.Text()
		if part, ok := strings.CutPrefix(line, "data:"); ok {
			data.WriteString(strings.TrimPrefix(part, " "))
			continue
		}
		if line != "" || data.Len() == 0 {
			continue // the event's name, or a sign of life
		}
		still.Stop()
		events <- data.String()
		data.Reset()
	}
	if err := lines.Err(); err != nil {
		return cut("events", err)
	}
	return nil
}

// gather returns first and the events that already wait behind it, maxWaiting at most.
func gather(first string, events <-chan string) []string {
	all := []string{first}
	for len(all) < maxWaiting {
		select {
		case ev, ok := <-events:
			if !ok {
				return all
			}
			all = append(all, ev)
		default:
			return all
		}
	}
	return all
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

// take hands in events, again and again until they are accepted. When ctx has ended, it tries once more, because the
// daemon does not send them again.
func (l *runner) take(ctx context.Context, events []string) {
	var b platforms.Batch
	for _, ev := range events {
		l.read(&b, ev)
	}
	if len(b.Events)+len(b.Roster)+len(b.Undecodable) == 0 {
		return
	}
	l.status.EventReceived()
	retry := l.Bot.wait
	taken := retry.Keep(ctx, func() error {
		err := l.in.Accept(ctx, b)
		if err == nil {
			l.status.SetStuck("")
		}
		return err
	}, func(err error, in time.Duration) {
		l.status.SetStuck("what Signal sent cannot be stored; nothing more is read meanwhile")
		l.log.Warn("signal events not stored; trying again", "events", len(b.Events), "in", in, "err", err)
	})
	if taken {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.lastTry)
	defer cancel()
	if err := l.in.Accept(ctx, b); err != nil {
		l.log.Error("signal events lost: they could not be stored before the stop", "events", len(b.Events), "err", err)
	}
}

// read adds a stream event to b. An event that makes no sense, or makes read panic, is kept in quarantine.
func (l *runner) read(b *platforms.Batch, data string) {
	defer func() {
		if v := recover(); v != nil {
			err := errors.New("panic: " + relay.PanicWords(v))
			l.log.Error("signal event could not be read; kept in quarantine", "err", err)
			b.Undecodable = append(b.Undecodable, platforms.Undecodable{Raw: []byte(data), Err: err})
		}
	}()
	var r received
	if err := httpcall.Decode([]byte(data), &r); err != nil {
		l.log.Warn("signal event makes no sense; kept in quarantine", "err", err)
		b.Undecodable = append(b.Undecodable, platforms.Undecodable{Raw: []byte(data), Err: err})
		return
	}
	if r.Account != "" && r.Account != l.account { // the daemon serves one account only, and that is not ours
		l.status.Set(platforms.Degraded, "the daemon at "+l.daemon.host()+" has another account than "+l.account)
		return
	}
	if r.Exception != nil {
		l.log.Warn("signal-cli could not read a message", "type", relay.Shown(r.Exception.Type))
	}
	if r.Envelope == nil {
		return
	}
	if m := r.Envelope.Data; m != nil && m.Group != nil && m.Group.Type == "UPDATE" {
		b.Roster = append(b.Roster, platforms.RosterChange{Chat: relay.ChatID("group:" + m.Group.ID)})
	}
	if ev := l.event(r.Envelope); ev != nil {
		b.Events = append(b.Events, *ev)
	}
}

// trouble reports in the status and the log why the stream ended, and pauses.
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
