package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/sessionkey"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// sweepEvery is how often the runner looks for idle threads.
const sweepEvery = 24 * time.Hour

// Runner answers the messages of a gateway with the programs of an engine, one message at a time.
type Runner struct {
	Engine     *Engine
	Credential client.Credential
	Log        *slog.Logger
	// Tell, unless nil, is called with a line that counts what happened to the messages since the start: at the start
	// and after each change.
	Tell func(line string)

	client  *client.Client
	journal *journal
	counts  struct{ answered, failed, unfit, interrupted int }
}

// Run runs until ctx ends, or the connector refuses the credential (client.ErrRefused). When ctx ends, Run tells the
// connector that it accepts no further messages, and waits for the program that runs; when hurry ends, that program is
// killed.
func (r *Runner) Run(ctx, hurry context.Context) (err error) {
	if r.journal, err = openJournal(r.Engine.State); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.journal.close()) }()
	r.client = &client.Client{Credential: r.Credential, OneByOne: true, Log: r.Log}
	for _, h := range r.Engine.Config.Handlers {
		if h.Command != "" {
			r.client.Manifest = append(r.client.Manifest, h.manifest())
		}
	}
	connected, disconnect := context.WithCancel(hurry)
	defer disconnect()
	work, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	var ended error
	wg.Go(func() {
		defer stop()
		ended = r.client.Run(connected)
	})
	var farewell sync.WaitGroup
	farewell.Go(func() {
		<-work.Done()
		_ = r.client.GoingIdle(hurry) // without an answer, the connector keeps unacknowledged deliveries
	})
	err = r.work(work, hurry)
	stop()
	farewell.Wait()
	disconnect()
	wg.Wait()
	r.Log.Info("stopped", "messages", r.line())
	return errors.Join(err, ended)
}

// work answers one message after the other until ctx ends. It finishes the last message, unless hurry ends.
func (r *Runner) work(ctx, hurry context.Context) error {
	var swept time.Time
	r.tell()
	for {
		if now := time.Now(); now.Sub(swept) > sweepEvery {
			swept = now
			if err := r.Engine.State.sweep(ctx, now); err != nil {
				r.Log.Warn("idle threads are not removed", "err", err)
			}
		}
		in, err := r.client.Delivery(ctx)
		if err != nil {
			return nil // ctx has ended
		}
		err = r.take(hurry, in)
		if hurry.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// count adds 1 to n, a field of counts, and calls Tell.
func (r *Runner) count(n *int) {
	*n++
	r.tell()
}

func (r *Runner) tell() {
	if r.Tell != nil {
		r.Tell(r.line())
	}
}

func (r *Runner) line() string {
	c := r.counts
	return fmt.Sprintf("%d answered, %d failed, %d did not fit, %d interrupted", c.answered, c.failed, c.unfit, c.interrupted)
}

// take answers one delivery, unless that was done before, and acknowledges it. The error is the journal's: without a
// journal, nothing may run.
func (r *Runner) take(ctx context.Context, in wire.Inbound) error {
	switch began, done := r.journal.state(in); {
	case done:
	case began:
		r.Log.Warn("a run was interrupted", "buffer", in.Buffer)
		r.count(&r.counts.interrupted)
		if err := r.say(ctx, in.Event, []string{interrupted}); err != nil {
			return nil
		}
		if err := r.journal.finish(in); err != nil {
			return err
		}
	default:
		if err := r.answer(ctx, in); err != nil || ctx.Err() != nil {
			return err
		}
	}
	_ = r.client.Acknowledge(ctx, in.Buffer) // if it is lost, the message comes again, and the journal knows it
	return nil
}

// answer runs the program for a delivery, if there is one, and sends its result. The error is the journal's.
func (r *Runner) answer(ctx context.Context, in wire.Inbound) error {
	if in.Event.Prompt != nil { // somebody answers a prompt, and handlers send none
		return nil
	}
	m := message{conversation: string(sessionkey.Build(in.Event.Source, sessionkey.Options{})), text: in.Event.Text}
	for _, o := range in.Event.Options {
		if m.options == nil {
			m.options = make(map[string]string)
		}
		m.options[o.Name] = o.Value
	}
	run, messages := r.Engine.prepare(m)
	if run == nil {
		if len(messages) > 0 {
			r.count(&r.counts.unfit)
		}
		_ = r.say(ctx, in.Event, messages) // if the runner stops now, the message comes again: nothing ran
		return nil
	}
	if err := r.journal.begin(in); err != nil {
		return err
	}
	messages = run(ctx)
	if ctx.Err() != nil {
		return nil // the program was killed: the next start tells the person
	}
	if n := len(messages); n > 0 && messages[n-1] == didNotWork {
		r.count(&r.counts.failed)
	} else {
		r.count(&r.counts.answered)
	}
	if err := r.say(ctx, in.Event, messages); err != nil {
		return nil
	}
	return r.journal.finish(in)
}

// sendTries is how many times at most one message is given to the connector.
const sendTries = 10

// say sends messages to the chat of an event. Its only error is that of ctx: what the connector refused is logged for
// the operator.
func (r *Runner) say(ctx context.Context, ev relay.Event, messages []string) error {
	for i, text := range messages {
		err := r.send(ctx, ev.Source.Platform, relay.Send{
			Chat: ev.Source.ChatID, Content: text, ReplyTo: ev.MessageID,
			Meta: relay.Metadata{ThreadID: ev.Source.ThreadID, Scope: ev.Source.Scope, UserID: ev.Source.UserID, Notify: i == len(messages)-1},
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.Log.Error("an answer was not sent", "err", err)
		}
	}
	return nil
}

// send sends one message. It tries again if the connector reports that the message was not sent, or if the connection
// is lost: then the message may arrive twice, which is better than not at all.
func (r *Runner) send(ctx context.Context, p relay.PlatformID, a relay.Send) error {
	again := backoff.Backoff{First: time.Second, Max: 30 * time.Second}
	for try := 1; ; try++ {
		_, err := r.client.Act(ctx, p, a)
		refusal, refused := errors.AsType[*relay.ActionError](err)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case refused && (refusal.Outcome != relay.NotSent || refusal.Code == relay.CodeEgressDeclined):
			return err
		case !refused && !errors.Is(err, client.ErrLost), try == sendTries:
			return err
		}
		pause := again.Next()
		if refused {
			pause = max(pause, refusal.RetryAfter)
		}
		if !backoff.Pause(ctx, pause) {
			return ctx.Err()
		}
	}
}
