package platformtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// inbox plays the hub: it keeps accepted events, refuses the batches that judge refuses, and records as faults
// everything by which the bot breaks the rules of platforms.Inbox.
type inbox struct {
	// Set before the platform runs.
	bot  relay.Bot
	life context.Context // the context of Run; its end plays the death of the process
	// judge, when not nil, is asked first; n counts the calls from 0. An error refuses the batch.
	judge func(ctx context.Context, n int) error

	mu       sync.Mutex        // guards the fields below
	busy     bool              // an Accept is under way
	offered  []platforms.Batch // every batch, refused ones too
	accepted []relay.Event
	cursor   []byte
	faults   []error
}

var _ platforms.Inbox = (*inbox)(nil)

func (in *inbox) Accept(ctx context.Context, b platforms.Batch) (err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.busy {
		in.faults = append(in.faults, errors.New("a batch was handed in while Accept still had another one"))
	}
	for _, ev := range b.Events {
		in.faults = append(in.faults, wellFormed(in.bot, ev))
	}
	in.busy = true
	in.offered = append(in.offered, b)
	if n := len(in.offered) - 1; in.judge != nil {
		in.mu.Unlock()
		err = in.judge(ctx, n)
		in.mu.Lock()
	}
	in.busy = false
	if err != nil {
		return err
	}
	in.accepted = append(in.accepted, b.Events...)
	if b.Cursor != nil {
		in.cursor = b.Cursor
	}
	return nil
}

func (in *inbox) Cursor(context.Context) ([]byte, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.cursor, nil
}

// fault returns all violations of the rules so far, or nil.
func (in *inbox) fault() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return errors.Join(in.faults...)
}

// batches returns the batches that were offered so far, including refused ones.
func (in *inbox) batches() []platforms.Batch {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.offered)
}

// events returns the accepted events so far.
func (in *inbox) events() []relay.Event {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.accepted)
}

// event waits for an accepted event with that text and returns the first one.
func (b *bench) event(text string) relay.Event {
	return b.eventThat(0, func(ev relay.Event) bool { return ev.Text == text }, fmt.Sprintf("an event that says %q", text))
}

// eventThat skips as many accepted events as before says, waits for one for which is returns true, and returns the
// first such event. what names the event in the error.
func (b *bench) eventThat(before int, is func(relay.Event) bool, what string) (found relay.Event) {
	b.until(func() bool {
		got := b.in.events()[before:]
		i := slices.IndexFunc(got, is)
		if i >= 0 {
			found = got[i]
		}
		return i >= 0
	}, func() error { return fmt.Errorf("wait for %s; accepted so far: %q", what, texts(b.in.events())) })
	return found
}

// inOrder waits until want has been accepted: exactly these texts, in this order, where an event
// that comes again with the same id counts once.
func (b *bench) inOrder(want ...string) {
	var got []string
	b.until(func() bool {
		got = texts(distinct(b.in.events()))
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			fail("accepted the events %q, want %q", got, want)
		}
		return len(got) == len(want)
	}, func() error { return fmt.Errorf("wait for the events %q; accepted so far: %q", want, got) })
}

// distinct leaves out events whose id came before.
func distinct(evs []relay.Event) []relay.Event {
	seen := make(map[relay.EventID]bool)
	return slices.DeleteFunc(evs, func(ev relay.Event) bool {
		again := seen[ev.ID]
		seen[ev.ID] = true
		return again
	})
}

func texts(evs []relay.Event) []string {
	out := make([]string, 0, len(evs))
	for _, ev := range evs {
		out = append(out, ev.Text)
	}
	return out
}

// wellFormed returns what ev lacks that every event must have; nil if it has everything.
func wellFormed(bot relay.Bot, ev relay.Event) error {
	_, unstorable := json.Marshal(ev)
	types := []relay.ChatType{relay.ChatDM, relay.ChatGroup, relay.ChatChannel, relay.ChatThread}
	for _, c := range []struct {
		ok   bool
		what string
	}{
		{ev.ID != "", "an id"},
		{ev.Bot == bot, "the bot it belongs to"},
		{!ev.At.IsZero(), "a time"},
		{unstorable == nil, "a form in JSON"},
		{ev.Type != "", "a message type"},
		{ev.MessageID != "", "a message id"},
		{ev.Source.Platform == bot.Platform, "its platform in the source"},
		{ev.Source.ChatID != "", "a chat id"},
		{ev.Source.UserID != "" || ev.Traits.Own || ev.Source.ChatType == relay.ChatChannel, "an author"},
		{slices.Contains(types, ev.Source.ChatType), "a chat type a gateway knows"},
		{len(ev.Attachments) <= relay.MaxAttachments, "a bound to its files"},
	} {
		if !c.ok {
			return fmt.Errorf("event %q lacks %s", ev.ID, c.what)
		}
	}
	return nil
}
