// Package hook is what platforms share whose network calls them over HTTP: a feed that hands in what came
// with many requests, one batch at a time, and the answers that such requests get.
//
// It verifies nothing: every network signs in a way of its own.
//
// Invariants:
//
//  1. Take returns nil only after the batch is on disk or deliberately dropped.
//  2. Batches are handed in in the order in which Take was called, one at a time.
package hook

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
)

const (
	// maxWaiting is how many requests wait to be handed in; who comes then is told to come again.
	maxWaiting = 1000
	// maxTogether is how many of them one commit takes.
	maxTogether = 64
)

var (
	// ErrBusy: too many requests wait.
	ErrBusy = errors.New("too many requests wait to be stored")
	// ErrLate: what was handed in was not on disk in time. It may get there yet.
	ErrLate = errors.New("not on disk in time")
	// ErrOver: Run has ended.
	ErrOver = errors.New("the bot has stopped")
)

// Feed hands in what requests brought. Its methods may be called from any goroutine, Run once.
type Feed struct {
	queue chan *piece
	over  chan struct{} // closed when Run ends
}

// piece is what one request brought.
type piece struct {
	batch platforms.Batch
	until time.Time  // when nobody waits for it any more
	done  chan error // capacity 1
}

// NewFeed makes a feed. What is taken waits for Run.
func NewFeed() *Feed { return &Feed{queue: make(chan *piece, maxWaiting), over: make(chan struct{})} }

// Take hands b in, which has no Cursor, and waits for the disk, no longer than wait. Errors: ErrBusy, ErrLate,
// ErrOver, ctx's cause, or why the store refused it.
func (f *Feed) Take(ctx context.Context, b platforms.Batch, wait time.Duration) error {
	p := &piece{batch: b, until: time.Now().Add(wait), done: make(chan error, 1)}
	select {
	case f.queue <- p:
	default:
		return ErrBusy
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case err := <-p.done:
		return err
	case <-t.C:
		return ErrLate
	case <-f.over:
		return ErrOver // what is stored all the same comes again, and is recognised
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run hands in what is taken until ctx ends. It tells said nil when something was stored, and why when not.
func (f *Feed) Run(ctx context.Context, in platforms.Inbox, said func(error)) {
	defer close(f.over)
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
		if p.until.After(last) {
			last = p.until
		}
	}
	for {
		err := in.Accept(ctx, b)
		said(err)
		if err == nil || !time.Now().Before(last) || !backoff.Pause(ctx, min(wait.Next(), time.Until(last))) {
			for _, p := range all {
				p.done <- err
			}
			return
		}
	}
}
