package slack

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/slack/socketmode"
)

const (
	// maxQueued and maxQueuedBytes bound the events that wait for the disk. Beyond them the socket is closed until half
	// of the queue is stored; Slack delivers again what was not acknowledged.
	maxQueued      = 4096
	maxQueuedBytes = 16 << 20
)

// item is one envelope or, if gap is set, a note that events before the next envelope may be missing.
type item struct {
	envelope socketmode.Envelope
	at       time.Time // when it came
	gap      bool
}

// queue holds items on their way from the socket, which puts them, to the feeder, which takes them.
type queue struct {
	mu      sync.Mutex // guards the fields below
	items   []item
	bytes   int
	held    int           // items that were taken, and for which done was not called yet
	changed chan struct{} // closed and replaced on every change
}

func newQueue() *queue { return &queue{changed: make(chan struct{})} }

// put appends an item and reports whether the queue may grow further. It never waits and never refuses.
func (q *queue) put(i item) (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, i)
	q.bytes += len(i.envelope.Payload)
	q.changedLocked()
	return len(q.items)+q.held < maxQueued && q.bytes < maxQueuedBytes
}

// take removes up to n items from the front. A gap comes alone. The items taken count against the queue's bounds until
// done is called for them.
func (q *queue) take(n int) []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.items))
	for k, i := range q.items[:n] {
		if i.gap {
			n = max(k, 1)
			break
		}
	}
	taken := slices.Clone(q.items[:n])
	clear(q.items[:n]) // so that the payloads can be freed
	if q.items = q.items[n:]; len(q.items) == 0 {
		q.items = nil
	}
	q.held += len(taken)
	return taken
}

// done notes that taken items need no room in the queue any more.
func (q *queue) done(items []item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held -= len(items)
	for _, i := range items {
		q.bytes -= len(i.envelope.Payload)
	}
	q.changedLocked()
}

// changedLocked wakes those who wait. q.mu must be held.
func (q *queue) changedLocked() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// look returns how many items wait, whether the queue is less than half full, and a channel that is closed when either
// changes.
func (q *queue) look() (n int, relaxed bool, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), len(q.items)+q.held < maxQueued/2 && q.bytes < maxQueuedBytes/2, q.changed
}

// relax waits until the queue is half empty. It returns false when ctx ended first.
func (q *queue) relax(ctx context.Context) bool {
	for ctx.Err() == nil {
		_, relaxed, changed := q.look()
		if relaxed {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}
