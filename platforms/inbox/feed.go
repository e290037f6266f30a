// Package inbox is shared by platforms whose networks call them over HTTP. It has a feed that hands in the events of
// many requests, one batch at a time, the answers to such requests, and a watch on the bot's credential.
//
// It verifies nothing: every network signs differently.
//
// Invariants:
//
//  1. Take returns nil only after the batch is on disk or deliberately dropped.
//  2. Batches are handed in in the order in which Take was called, one at a time.
//  3. Events for which Take returned ErrLate may still be handed in and stored. If the network repeats them, the Inbox
//     recognises them and stores nothing twice.
package inbox

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxWaiting is how many requests may wait to be handed in. Further ones are told to come again.
	maxWaiting = 1000
	// maxBytes is how many bytes of events all waiting requests may have together; a single request may have more.
	maxBytes = 8 << 20
	// maxTogether is how many requests go into one commit.
	maxTogether = 64
)

var (
	// ErrBusy: too many requests wait.
	ErrBusy = errors.New("too many requests wait to be stored")
	// ErrLate: the events were not on disk in time. They may still be stored.
	ErrLate = errors.New("not on disk in time")
	// ErrEnded: the bot no longer runs.
	ErrEnded = errors.New("the bot runs no more")
)

// Feed hands in the events that requests brought. Its methods may be called from any goroutine, Run once.
type Feed struct {
	queue chan *piece
	bytes atomic.Int64  // of the events that wait in queue or are being stored
	ended chan struct{} // closed when Run has returned
}

// piece holds the events of one request.
type piece struct {
	batch platforms.Batch
	until time.Time  // when its request no longer waits
	asks  bool       // its caller wants to know whether its events were stored before
	known bool       // all of its events were stored before; read after done
	done  chan error // capacity 1
}

// NewFeed makes a feed. Batches that it takes wait for Run.
func NewFeed() *Feed {
	return &Feed{queue: make(chan *piece, maxWaiting), ended: make(chan struct{})}
}

// Take hands in b, which has no Cursor, and waits for the disk, no longer than wait. Errors: ErrBusy, ErrLate,
// ErrEnded, ctx's cause, or why the store refused b.
func (f *Feed) Take(ctx context.Context, b platforms.Batch, wait time.Duration) error {
	return f.take(ctx, &piece{batch: b}, wait)
}

// TakeNew is Take, and reports whether all events of b had been stored before, so that nothing was done. Events that
// were dropped before do not count as stored.
func (f *Feed) TakeNew(ctx context.Context, b platforms.Batch, wait time.Duration) (known bool, err error) {
	p := &piece{batch: b, asks: true}
	err = f.take(ctx, p, wait)
	return err == nil && p.known, err
}

// take puts p into the queue and waits for its result, no longer than wait.
func (f *Feed) take(ctx context.Context, p *piece, wait time.Duration) error {
	p.until, p.done = time.Now().Add(wait), make(chan error, 1)
	size := p.size()
	if n := f.bytes.Add(size); n > maxBytes && n > size {
		f.bytes.Add(-size)
		return ErrBusy
	}
	select {
	case f.queue <- p:
	default:
		f.bytes.Add(-size)
		return ErrBusy
	}
	select {
	case err := <-p.done:
		return err
	case <-time.After(wait):
		return ErrLate
	case <-f.ended:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// size estimates the memory that p takes.
func (p *piece) size() (n int64) {
	for _, ev := range p.batch.Events {
		n += int64(len(ev.Text))
	}
	for _, u := range p.batch.Undecodable {
		n += int64(len(u.Raw))
	}
	return n
}

// Run hands in events until ctx ends. It calls said with the result of each Accept: nil, or the error.
func (f *Feed) Run(ctx context.Context, in platforms.Inbox, said func(error)) {
	defer close(f.ended)
	for {
		select {
		case p := <-f.queue:
			f.handIn(ctx, in, f.gather(p), said)
		case <-ctx.Done():
			return
		}
	}
}

// gather returns p and the other waiting pieces, at most maxTogether in all.
func (f *Feed) gather(p *piece) []*piece {
	all := []*piece{p}
	for len(all) < maxTogether {
		select {
		case p := <-f.queue:
			all = append(all, p)
		default:
			return all
		}
	}
	return all
}

// handIn stores all pieces in one transaction. After a failure it tries again while some request still waits for its
// piece. Then it gives every request the result.
func (f *Feed) handIn(ctx context.Context, in platforms.Inbox, all []*piece, said func(error)) {
	wait := backoff.Backoff{First: 100 * time.Millisecond, Max: 2 * time.Second}
	var last time.Time
	var b platforms.Batch
	for _, p := range all {
		b.Events = append(b.Events, p.batch.Events...)
		b.Undecodable = append(b.Undecodable, p.batch.Undecodable...)
		b.Moves = append(b.Moves, p.batch.Moves...)
		b.Roster = append(b.Roster, p.batch.Roster...)
		b.Capabilities = append(b.Capabilities, p.batch.Capabilities...)
		b.Receipts = append(b.Receipts, p.batch.Receipts...)
		if p.until.After(last) {
			last = p.until
		}
	}
	b.Refused = func(press relay.EventID, words string) {
		if of := bringer(all, press); of.Refused != nil {
			of.Refused(press, words)
		}
	}
	b.Undecided = func(press relay.EventID) {
		if of := bringer(all, press); of.Undecided != nil {
			of.Undecided(press)
		}
	}
	mark(ctx, in, all)
	for {
		err := in.Accept(ctx, b)
		said(err)
		if err == nil || !time.Now().Before(last) || !backoff.Pause(ctx, min(wait.Next(), time.Until(last))) {
			for _, p := range all {
				f.bytes.Add(-p.size())
				p.done <- err
			}
			return
		}
	}
}

// bringer returns the batch in which the event came; an empty one if it came in none.
func bringer(all []*piece, ev relay.EventID) (b platforms.Batch) {
	for _, p := range all {
		if slices.ContainsFunc(p.batch.Events, func(e relay.Event) bool { return e.ID == ev }) {
			return p.batch
		}
	}
	return b
}

// mark sets known in each piece that asks, before any piece is stored. Repetitions of an event come through the same
// feed, so that only one of their requests learns that it was the first.
func mark(ctx context.Context, in platforms.Inbox, all []*piece) {
	d, ok := in.(platforms.Directory)
	if !ok {
		return
	}
	now := make(map[relay.EventID]bool) // the events in this batch
	for _, p := range all {
		var ids []relay.EventID
		for _, ev := range p.batch.Events {
			ids = append(ids, ev.ID)
		}
		if p.asks && len(ids) > 0 {
			seen, err := d.Seen(ctx, ids)
			p.known = err == nil
			for n, id := range ids {
				p.known = p.known && (seen[n] || now[id])
			}
		}
		for _, id := range ids {
			now[id] = true
		}
	}
}
