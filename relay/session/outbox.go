package session

import (
	"context"
	"errors"
	"sync"
)

const (
	// outboxFull is how many frames may wait before push waits, too.
	outboxFull = 64
	// outboxMax is how many frames may wait in all. Only a gateway that sends requests and does not read causes more.
	outboxMax = 1024
)

// outbox is the queue of encoded frames in front of the writer. push waits while it is full (the pump can wait); put
// never does (an answer cannot). Both keep one order. A writer exists only while there is something to write: an idle
// session has none.
type outbox struct {
	mu     sync.Mutex // guards the fields below
	frames []queued
	opens  chan struct{} // closed when frames may be pushed again; nil while nobody waits for that
	closed bool
	write  func()        // starts a writer; nil before open
	busy   chan struct{} // closed when the writer ends; nil while there is none
}

// queued is a frame in the outbox.
type queued struct {
	line []byte
	left func(written bool) // see Session.Push
}

func (q queued) leave(written bool) {
	if q.left != nil {
		q.left(written)
	}
}

// errFull is the error of put if too many frames wait.
var errFull = errors.New("outbox full")

// open lets writers start. write must start one that calls next until that returns false.
func (o *outbox) open(write func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.write = write
	o.startLocked()
}

// push queues frame once fewer than outboxFull wait. It returns ctx's error or ErrEnded instead.
func (o *outbox) push(ctx context.Context, frame queued) error {
	for ctx.Err() == nil {
		opens, err := o.add(frame, outboxFull)
		if !errors.Is(err, errFull) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-opens:
		}
	}
	return ctx.Err()
}

// put queues frame at once. It returns errFull or ErrEnded instead.
func (o *outbox) put(frame queued) error {
	_, err := o.add(frame, outboxMax)
	return err
}

// add queues frame unless as many as most wait; then the channel is closed once a frame may be pushed.
func (o *outbox) add(frame queued, most int) (opens <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return nil, ErrEnded
	case len(o.frames) >= most:
		if o.opens == nil {
			o.opens = make(chan struct{})
		}
		return o.opens, errFull
	}
	o.frames = append(o.frames, frame)
	o.startLocked()
	return nil, nil
}

// startLocked starts a writer if one is needed and none runs. o.mu must be held.
func (o *outbox) startLocked() {
	if o.write != nil && o.busy == nil && len(o.frames) > 0 {
		o.busy = make(chan struct{})
		o.write()
	}
}

// next returns the oldest frame; without one the writer must end. Only the writer calls it.
func (o *outbox) next() (frame queued, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.frames) == 0 {
		o.frames = nil // an idle session keeps nothing
		close(o.busy)
		o.busy = nil
		return queued{}, false
	}
	frame, o.frames[0] = o.frames[0], queued{}
	o.frames = o.frames[1:]
	if len(o.frames) < outboxFull {
		o.wakePushersLocked()
	}
	return frame, true
}

// wakePushersLocked wakes the pushes that wait. o.mu must be held.
func (o *outbox) wakePushersLocked() {
	if o.opens != nil {
		close(o.opens)
		o.opens = nil
	}
}

// close refuses frames from now on; those that wait are still written with flush, and dropped
// without. The channel is closed when the writer has ended.
func (o *outbox) close(flush bool) <-chan struct{} {
	o.mu.Lock()
	o.closed = true
	var dropped []queued
	if !flush {
		dropped, o.frames = o.frames, nil
	}
	o.wakePushersLocked()
	busy := o.busy
	o.mu.Unlock()
	for _, q := range dropped {
		q.leave(false)
	}
	if busy == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return busy
}
