// Package day remembers how the last 24 hours went, in memory only, and draws it.
//
// Invariant: what it holds is bounded and does not grow: one line of numbers for each ten minutes.
package day

import (
	"sync"
	"time"
)

const (
	// Slot is the time that one line of numbers is about, and Slots is how many there are.
	Slot  = 10 * time.Minute
	Slots = int(24 * time.Hour / Slot)
)

// Reading is what counters say at one moment; the totals only grow.
type Reading struct {
	In, Out    uint64 // messages that came for gateways, and that gateways sent
	Acks       uint64 // messages that gateways took
	AckMillis  uint64 // the time that those waited, all together
	WaitingNow int    // messages that wait
}

// Line is what happened in one slot.
type Line struct {
	In, Out uint32
	Waiting uint32        // the most at a time
	Delay   time.Duration // the average of the messages that were taken, at least 1 ms; 0: none was
}

// Book keeps the lines of a day. The zero value is ready; its methods may be called from any goroutine.
type Book struct {
	mu    sync.Mutex // guards the fields below
	last  Reading
	slots [Slots]slot
	began bool // last is a reading
}

// slot is a line in the making.
type slot struct {
	number      int64 // slots since 1970; tells this day's from yesterday's
	line        Line
	acks, delay uint64 // delay is in milliseconds
}

// Add notes a reading. Totals that fell are those of another start: they count from zero.
func (b *Book) Add(now time.Time, r Reading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	number := now.UnixNano() / int64(Slot)
	s := &b.slots[number%int64(Slots)]
	if s.number != number {
		*s = slot{number: number}
	}
	if b.began {
		s.line.In += uint32(grown(b.last.In, r.In))
		s.line.Out += uint32(grown(b.last.Out, r.Out))
		s.acks += grown(b.last.Acks, r.Acks)
		s.delay += grown(b.last.AckMillis, r.AckMillis)
	}
	s.line.Waiting = max(s.line.Waiting, uint32(r.WaitingNow))
	if s.acks > 0 {
		s.line.Delay = max(time.Duration(s.delay/s.acks)*time.Millisecond, time.Millisecond)
	}
	b.last, b.began = r, true
}

func grown(from, to uint64) uint64 {
	if to < from {
		return to
	}
	return to - from
}

// Lines are the slots of the 24 hours before now, the oldest first; the last is the one that is not over. Of what
// nobody looked at a line is zero.
func (b *Book) Lines(now time.Time) []Line {
	b.mu.Lock()
	defer b.mu.Unlock()
	newest := now.UnixNano() / int64(Slot)
	out := make([]Line, Slots)
	for i := range out {
		number := newest - int64(Slots-1-i)
		if s := b.slots[number%int64(Slots)]; s.number == number {
			out[i] = s.line
		}
	}
	return out
}
