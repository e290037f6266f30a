package platformtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// soon is how long Run may take to end: far more than ending takes, less than a long poll.
const soon = 15 * time.Second

// bench is one bot at work: its Run on a goroutine, which end or ended waits for.
type bench struct {
	h    Harness
	p    platforms.Platform
	in   *inbox
	stop context.CancelFunc
	done chan error // what Run returned; capacity 1, so Run's goroutine never waits for a reader
}

// start opens a bot and runs it against in, whose bot it fills in.
func start(ctx context.Context, h Harness, in *inbox) (*bench, error) {
	p, err := h.Open()
	if err != nil {
		return nil, fmt.Errorf("harness: open: %w", err)
	}
	in.bot = p.Bot()
	return run(ctx, h, p, in), nil
}

// run starts p.Run with a context that ends only when stop is called, or has ended already. The check's own
// context would not do: a Run that only waits for its context's end would return just when the check looks.
func run(ctx context.Context, h Harness, p platforms.Platform, in *inbox) *bench {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	if ctx.Err() != nil {
		stop()
	}
	b := &bench{h: h, p: p, in: in, stop: stop, done: make(chan error, 1)}
	go func() { b.done <- p.Run(life, in) }()
	return b
}

// with runs body on a bot at work, ends the bot, and returns what either complains about. Most
// checks are one call of it.
func with(ctx context.Context, h Harness, in *inbox, body func(b *bench) error) error {
	b, err := start(ctx, h, in)
	if err != nil {
		return err
	}
	err = body(b)
	return errors.Join(err, b.end(ctx))
}

// end stops the bot and waits for Run, which must return nil. A check whose time is over gives it
// a moment all the same.
func (b *bench) end(ctx context.Context) error {
	b.stop()
	err := b.ended(ctx, soon)
	if errors.Is(err, errStillRunning) && ctx.Err() != nil {
		err = b.ended(context.WithoutCancel(ctx), time.Second)
	}
	if err != nil {
		return fmt.Errorf("run, after its context ended: %w", err)
	}
	return b.in.fault()
}

// errStillRunning is a Run that outlives its time.
var errStillRunning = errors.New("it has not returned")

// ended waits for Run, until ctx ends or the time is over, and returns what it returned.
func (b *bench) ended(ctx context.Context, within time.Duration) error {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case err := <-b.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("at the end of the check: %w", errStillRunning)
	case <-t.C:
		return fmt.Errorf("after %s: %w", within, errStillRunning)
	}
}

// say makes a person write.
func (b *bench) say(ctx context.Context, who Person, where Room, text string) error {
	if err := b.h.Say(ctx, who, where, text); err != nil {
		return fmt.Errorf("harness: say: %w", err)
	}
	return nil
}

// hear makes a person write and waits for the event.
func (b *bench) hear(ctx context.Context, who Person, where Room, text string) (relay.Event, error) {
	if err := b.say(ctx, who, where, text); err != nil {
		return relay.Event{}, err
	}
	return b.in.text(ctx, text)
}

// connected waits until the status says so.
func (b *bench) connected(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond) // a status can only be looked at, not waited for
	defer tick.Stop()
	for {
		s := b.p.Status()
		if s.State == platforms.Connected {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("status is %s (%s), want %s: %w", s.State, s.Reason, platforms.Connected, ctx.Err())
		case <-tick.C:
		}
	}
}

// reply answers in the place an event came from.
func reply(ev relay.Event, text string) relay.Send {
	return relay.Send{Chat: ev.Source.ChatID, Content: text, Meta: relay.Metadata{
		Scope: ev.Source.Scope, ThreadID: ev.Source.ThreadID, UserID: ev.Source.UserID, Notify: true,
	}}
}

// sent are the texts of the messages the network carried out.
func sent(h Harness) []string {
	out := []string{}
	for _, r := range h.Received() {
		if r.Op == relay.OpSend {
			out = append(out, r.Text)
		}
	}
	return out
}
