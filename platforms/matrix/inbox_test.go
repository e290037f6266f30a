package matrix

import (
	"context"
	"slices"
	"sync"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// memoryInbox keeps what a bot hands in, and who is linked. It outlives the bot, as a database would.
type memoryInbox struct {
	linked map[relay.UserID]bool

	mu      sync.Mutex // guards the fields below
	all     []platforms.Batch
	seen    map[relay.EventID]bool
	cursor  []byte
	refuses func(platforms.Batch) error // nil: nothing
}

// Accept implements platforms.Inbox. What was accepted before is dropped.
func (in *memoryInbox) Accept(_ context.Context, b platforms.Batch) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.refuses != nil {
		if err := in.refuses(b); err != nil {
			return err
		}
	}
	if in.seen == nil {
		in.seen = make(map[relay.EventID]bool)
	}
	b.Events = slices.DeleteFunc(slices.Clone(b.Events), func(ev relay.Event) bool { return in.seen[ev.ID] })
	for _, ev := range b.Events {
		in.seen[ev.ID] = true
	}
	in.all = append(in.all, b)
	if b.Cursor != nil {
		in.cursor = b.Cursor
	}
	return nil
}

// Cursor implements platforms.Inbox.
func (in *memoryInbox) Cursor(context.Context) ([]byte, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.cursor, nil
}

// Linked implements platforms.People.
func (in *memoryInbox) Linked(_ context.Context, user relay.UserID) (bool, error) {
	return in.linked[user], nil
}

func (in *memoryInbox) events() (out []relay.Event) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, b := range in.all {
		out = append(out, b.Events...)
	}
	return out
}

func (in *memoryInbox) moves() (out []platforms.Move) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, b := range in.all {
		out = append(out, b.Moves...)
	}
	return out
}
