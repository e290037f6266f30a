package platformtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// inbox is the hub's side of the door: it keeps what it accepted, refuses when told to, and notes
// every breach of the inbox's own rules, whatever check is running.
type inbox struct {
	// Set before the platform runs.
	bot relay.Bot
	// judge, when not nil, is asked first; n counts the calls from 0. An error refuses the batch.
	judge func(ctx context.Context, n int, b platforms.Batch) error

	mu       sync.Mutex    // guards the fields below
	grown    chan struct{} // closed and replaced on every change
	busy     bool          // an Accept is under way
	calls    int
	offered  []platforms.Batch // every batch, refused ones too
	accepted []relay.Event
	cursor   []byte
	faults   []error
}

var _ platforms.Inbox = (*inbox)(nil)

func (in *inbox) Accept(ctx context.Context, b platforms.Batch) error {
	n := in.enter(b)
	var err error
	if in.judge != nil {
		err = in.judge(ctx, n, b)
	}
	in.leave(b, err == nil)
	return err
}

func (in *inbox) enter(b platforms.Batch) (n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.busy {
		in.faults = append(in.faults, errors.New("a batch was handed in while Accept still had another one"))
	}
	for _, ev := range b.Events {
		if err := wellFormed(in.bot, ev); err != nil {
			in.faults = append(in.faults, err)
		}
	}
	in.busy = true
	in.offered = append(in.offered, b)
	n = in.calls
	in.calls++
	in.changedLocked()
	return n
}

func (in *inbox) leave(b platforms.Batch, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.busy = false
	if ok {
		in.accepted = append(in.accepted, b.Events...)
		if b.Cursor != nil {
			in.cursor = b.Cursor
		}
	}
	in.changedLocked()
}

// changedLocked wakes those who wait. in.mu must be held.
func (in *inbox) changedLocked() {
	if in.grown != nil {
		close(in.grown)
	}
	in.grown = make(chan struct{})
}

func (in *inbox) Cursor(context.Context) ([]byte, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.cursor, nil
}

// fault is every breach so far, or nil.
func (in *inbox) fault() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return errors.Join(in.faults...)
}

// events are the accepted ones so far.
func (in *inbox) events() []relay.Event {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.accepted)
}

// wait blocks until holds returns true, an error, or ctx ends. holds is called with in.mu held.
func (in *inbox) wait(ctx context.Context, what string, holds func() (bool, error)) error {
	for {
		in.mu.Lock()
		if in.grown == nil {
			in.grown = make(chan struct{})
		}
		grown := in.grown // taken before looking, so a change while looking is not missed
		ok, err := holds()
		got := texts(in.accepted)
		in.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; accepted so far: %q", what, ctx.Err(), got)
		}
	}
}

// text waits for an accepted event with that text and returns the first one.
func (in *inbox) text(ctx context.Context, text string) (relay.Event, error) {
	var found relay.Event
	err := in.wait(ctx, fmt.Sprintf("wait for an event that says %q", text), func() (bool, error) {
		i := slices.IndexFunc(in.accepted, func(ev relay.Event) bool { return ev.Text == text })
		if i < 0 {
			return false, nil
		}
		found = in.accepted[i]
		return true, nil
	})
	return found, err
}

// inOrder waits until want has been accepted: exactly these texts, in this order, where an event
// that comes again with the same id counts once.
func (in *inbox) inOrder(ctx context.Context, want []string) error {
	return in.wait(ctx, fmt.Sprintf("wait for the events %q", want), func() (bool, error) {
		got := texts(distinct(in.accepted))
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			return false, fmt.Errorf("accepted the events %q, want %q", got, want)
		}
		return len(got) == len(want), nil
	})
}

// distinct leaves out events whose id came before.
func distinct(evs []relay.Event) []relay.Event {
	seen := make(map[relay.EventID]bool)
	var out []relay.Event
	for _, ev := range evs {
		if !seen[ev.ID] {
			seen[ev.ID] = true
			out = append(out, ev)
		}
	}
	return out
}

func texts(evs []relay.Event) []string {
	out := make([]string, 0, len(evs))
	for _, ev := range evs {
		out = append(out, ev.Text)
	}
	return out
}

// wellFormed reports what every event must have and ev has not.
func wellFormed(bot relay.Bot, ev relay.Event) error {
	types := []relay.ChatType{relay.ChatDM, relay.ChatGroup, relay.ChatChannel, relay.ChatThread}
	for _, c := range []struct {
		ok   bool
		what string
	}{
		{ev.ID != "", "an id"},
		{ev.Bot == bot, "the bot it belongs to"},
		{!ev.At.IsZero(), "a time"},
		{ev.Type != "", "a message type"},
		{ev.MessageID != "", "a message id"},
		{ev.Source.Platform == bot.Platform, "its platform in the source"},
		{ev.Source.ChatID != "", "a chat id"},
		{ev.Source.UserID != "" || ev.Traits.Own || ev.Source.ChatType == relay.ChatChannel, "an author"},
		{slices.Contains(types, ev.Source.ChatType), "a chat type a gateway knows"},
	} {
		if !c.ok {
			return fmt.Errorf("event %q lacks %s", ev.ID, c.what)
		}
	}
	return nil
}
