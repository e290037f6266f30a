package discord

import (
	"context"
	"sync"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/gateway"
)

const (
	// maxQueued and maxQueuedBytes bound what waits for the disk. Past them the socket is closed
	// until half of it is gone; Discord keeps the rest, and sends it after the resume.
	maxQueued      = 4096
	maxQueuedBytes = 16 << 20
)

// item is one dispatch on its way to the inbox, or several in a row that are nothing for it.
type item struct {
	seq   int64
	kind  string // kindMessage or kindInteraction, else nothing but seq, begun, roster and err count
	data  []byte // the dispatch's data
	press *interaction
	begun *gateway.Session // READY: from here on the sequence counts in this session
	// roster are changes of who sees what.
	roster []platforms.RosterChange
	err    error // the data makes no sense
}

// idle reports whether the inbox has no interest in the item.
func (i item) idle() bool {
	return i.kind == "" && i.begun == nil && len(i.roster) == 0 && i.err == nil
}

// queue holds items between the socket and the feeder. One side puts, one side takes.
type queue struct {
	mu      sync.Mutex // guards the fields below
	items   []item
	bytes   int
	changed chan struct{} // closed and replaced on every change
}

func newQueue() *queue { return &queue{changed: make(chan struct{})} }

// put appends an item and reports whether there is room for a next one. It never waits and never
// refuses: who puts looks at the answer.
func (q *queue) put(i item) (room bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if last := len(q.items) - 1; last >= 0 && i.idle() && q.items[last].idle() {
		q.items[last].seq = i.seq
	} else {
		q.items = append(q.items, i)
		q.bytes += len(i.data)
	}
	q.changedLocked()
	return len(q.items) < maxQueued && q.bytes < maxQueuedBytes
}

// take removes up to n items from the front. The beginning of a session comes alone.
func (q *queue) take(n int) []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.items))
	for k, i := range q.items[:n] {
		if i.begun != nil {
			n = max(k, 1)
			break
		}
	}
	taken := append([]item(nil), q.items[:n]...)
	clear(q.items[:n]) // so that payloads do not outlive their turn
	q.items = q.items[n:]
	for _, i := range taken {
		q.bytes -= len(i.data)
	}
	if len(q.items) == 0 {
		q.items = nil
	}
	q.changedLocked()
	return taken
}

// changedLocked wakes those who wait. q.mu must be held.
func (q *queue) changedLocked() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// look is how many items wait, and a channel that is closed when that changes.
func (q *queue) look() (n int, relaxed bool, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), len(q.items) < maxQueued/2 && q.bytes < maxQueuedBytes/2, q.changed
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
