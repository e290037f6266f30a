// Package inbox is what platforms share whose network calls them over HTTP: a feed that hands in what came
// with many requests, one batch at a time, the answers that such requests get, and a watch on the bot's credential.
//
// It verifies nothing: every network signs in a way of its own.
//
// Invariants:
//
//  1. Take returns nil only after the batch is on disk or deliberately dropped.
//  2. Batches are handed in in the order in which Take was called, one at a time.
//  3. What was taken and is late is handed in all the same: the network's repetition meets its seen mark.
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
	// maxWaiting is how many requests wait to be handed in; who comes then is told to come again.
	maxWaiting = 1000
	// maxBytes is how much they may have brought together, unless one of them alone is larger.
	maxBytes = 8 << 20
	// maxTogether is how many of them one commit takes.
	maxTogether = 64
)

var (
	// ErrBusy: too many requests wait.
	ErrBusy = errors.New("too many requests wait to be stored")
	// ErrLate: what was handed in was not on disk in time. It may get there yet.
	ErrLate = errors.New("not on disk in time")
	// ErrEnded: the bot runs no more.
	ErrEnded = errors.New("the bot runs no more")
)

// Feed hands in what requests brought. Its methods may be called from any goroutine, Run once.
type Feed struct {
	queue chan *piece
	bytes atomic.Int64  // that wait in queue, or are being stored
	ended chan struct{} // closed when Run has returned
}

// piece is what one request brought.
type piece struct {
	batch platforms.Batch
	until time.Time  // when nobody waits for it any more
	asks  bool       // whether its events are known
	known bool       // all of its events were stored before; read after done
	done  chan error // capacity 1
}

// NewFeed makes a feed. What is taken waits for Run.
func NewFeed() *Feed {
	return &Feed{queue: make(chan *piece, maxWaiting), ended: make(chan struct{})}
}

// Take hands b in, which has no Cursor, and waits for the disk, no longer than wait. Errors: ErrBusy, ErrLate, ErrEnded, ctx's cause, or
// why the store refused it.
func (f *Feed) Take(ctx context.Context, b platforms.Batch, wait time.Duration) error {
	return f.take(ctx, &piece{batch: b}, wait)
}

// TakeNew is Take, and tells whether all events of b were stored before, so that nothing was done. Of what was
// dropped nobody knows.
func (f *Feed) TakeNew(ctx context.Context, b platforms.Batch, wait time.Duration) (known bool, err error) {
	p := &piece{batch: b, asks: true}
	err = f.take(ctx, p, wait)
	return err == nil && p.known, err
}

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

// size is what keeps p in memory, for the most part.
func (p *piece) size() (n int64) {
	for _, ev := range p.batch.Events {
		n += int64(len(ev.Text))
	}
	for _, u := range p.batch.Undecodable {
		n += int64(len(u.Raw))
	}
	return n
}

// Run hands in what is taken until ctx ends. It tells said nil when something was stored, and why when not.
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

// gather adds to p what else waits.
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

// handIn stores all in one transaction, and tries again as long as somebody waits for one of them.
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

// bringer is the batch that brought the event.
func bringer(all []*piece, ev relay.EventID) (b platforms.Batch) {
	for _, p := range all {
		if slices.ContainsFunc(p.batch.Events, func(e relay.Event) bool { return e.ID == ev }) {
			return p.batch
		}
	}
	return b
}

// mark notes which of all that ask are known, before any of them is stored. Whoever hands in the same event is in
// the same feed, so nobody is told twice that theirs was the first.
func mark(ctx context.Context, in platforms.Inbox, all []*piece) {
	d, ok := in.(platforms.Directory)
	if !ok {
		return
	}
	now := make(map[relay.EventID]bool) // what comes in this batch
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
