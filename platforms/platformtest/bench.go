package platformtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// soon is how long Run may take to end: far more than it needs, and less than the duration of a long poll, so that a
// bot that only waits for its poll to end fails.
const soon = 15 * time.Second

// bench is one running bot, for one check. Its methods end the check when something fails.
type bench struct {
	ctx  context.Context // of the check
	h    Harness
	p    platforms.Bot
	in   *inbox
	stop context.CancelFunc
	done chan error // what Run returned; capacity 1, so Run's goroutine never waits for a reader
	over bool       // Run has returned
}

// finding is a fault that a check found. fail ends the check by a panic with it; run recovers and returns it.
type finding struct{ error }

func fail(format string, args ...any) { panic(finding{fmt.Errorf(format, args...)}) }

// must ends the check if err is not nil. what names the step.
func must(what string, err error) {
	if err != nil {
		fail("%s: %w", what, err)
	}
}

// working makes a check that runs body beside a running bot.
func working(body func(b *bench)) func(context.Context, Harness) error {
	return func(ctx context.Context, h Harness) error { return with(ctx, h, &inbox{}, body) }
}

// with opens a bot, runs it against in, calls body, stops the bot, and returns what failed.
func with(ctx context.Context, h Harness, in *inbox, body func(b *bench)) error {
	p, err := h.Open()
	if err != nil {
		return fmt.Errorf("harness: open: %w", err)
	}
	return run(ctx, h, p, in, body)
}

// run runs the open bot p against in, calls body, stops the bot, and returns what failed. The bot's Run gets a context
// of its own, which ends after body (or before it, if ctx has ended already). With the check's context, a Run that
// hangs would return just when the check's time is over.
func run(ctx context.Context, h Harness, p platforms.Bot, in *inbox, body func(b *bench)) (err error) {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	in.bot, in.life = p.ID(), life
	if ctx.Err() != nil {
		stop()
	}
	b := &bench{ctx: ctx, h: h, p: p, in: in, stop: stop, done: make(chan error, 1)}
	go func() { b.done <- p.Run(life, in) }()
	defer func() {
		v := recover()
		found, ok := v.(finding)
		if !ok && v != nil {
			panic(v)
		}
		err = errors.Join(found.error, b.end(), in.fault())
	}()
	body(b)
	return nil
}

// end stops the bot and waits for Run, which must return nil. Run gets a second even if the check's time is over.
func (b *bench) end() error {
	b.stop()
	if b.over {
		return nil
	}
	err := b.ended(b.ctx, soon)
	if errors.Is(err, errStillRunning) && b.ctx.Err() != nil {
		err = b.ended(context.WithoutCancel(b.ctx), time.Second)
	}
	if err != nil {
		return fmt.Errorf("run, after its context ended: %w", err)
	}
	return nil
}

// errStillRunning says that Run has not returned in time.
var errStillRunning = errors.New("it has not returned")

// ended waits for Run, at most until ctx ends or within is over, and returns Run's error.
func (b *bench) ended(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case err := <-b.done:
		b.over = true
		return err
	case <-ctx.Done():
		return errStillRunning
	}
}

// revoke makes the network reject the credential, and returns what Run returned then.
func (b *bench) revoke() error {
	must("harness: revoke", b.h.Revoke(b.ctx))
	err := b.ended(b.ctx, limit)
	if errors.Is(err, errStillRunning) {
		fail("run, with a revoked credential: %w", err)
	}
	return err
}

func (b *bench) drop() { must("harness: drop", b.h.Drop(b.ctx)) }

func (b *bench) breakNextSend() { must("harness: break the next send", b.h.BreakNextSend(b.ctx)) }

// say makes a person write.
func (b *bench) say(who Person, where Place, text string) {
	must("harness: say", b.h.Say(b.ctx, who, where, text))
}

// hear makes a person write and waits for the event.
func (b *bench) hear(who Person, where Place, text string) relay.Event {
	b.say(who, where, text)
	ev := b.event(text)
	if of := platforms.MessageEvent(b.p, ev.Source.ChatID, ev.MessageID); of != ev.ID {
		fail("the message %q was the event %q, and MessageEvent says %q", ev.MessageID, ev.ID, of)
	}
	return ev
}

// send sends a message as the bot.
func (b *bench) send(a relay.Send) relay.Result {
	res, err := b.p.Send(b.ctx, a)
	must("send", err)
	return res
}

// until waits until holds is true. It polls, since a bot does not report when its status changes. otherwise makes the
// error if the check's time is over first.
func (b *bench) until(holds func() bool, otherwise func() error) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-b.ctx.Done():
			fail("%w: %w", otherwise(), b.ctx.Err())
		case <-tick.C:
		}
	}
}

// connected waits until the status is Connected.
func (b *bench) connected(when string) {
	b.until(func() bool { return b.p.Status().State == platforms.Connected }, func() error {
		s := b.p.Status()
		return fmt.Errorf("%s the status is %s (%s), want %s", when, s.State, s.Reason, platforms.Connected)
	})
}

// reply returns the action that sends text to the place from which an event came.
func reply(ev relay.Event, text string) relay.Send {
	return relay.Send{Chat: ev.Source.ChatID, Content: text, Meta: relay.Metadata{
		Scope: ev.Source.Scope, ThreadID: ev.Source.ThreadID, UserID: ev.Source.UserID, Notify: true,
	}}
}

// sent returns the texts of the bot's messages that the network accepted, oldest first.
func sent(h Harness) []string {
	out := []string{}
	for _, r := range h.Received() {
		if r.Op == relay.OpSend {
			out = append(out, r.Text)
		}
	}
	return out
}
