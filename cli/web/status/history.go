package status

import (
	"sync"
	"time"
)

const (
	// slotFor is the length of a slot, and slots is how many there are.
	slotFor = 10 * time.Minute
	slots   = int(24 * time.Hour / slotFor)
)

// reading is the state of the counters at one moment; the totals only grow.
type reading struct {
	In, Out    uint64 // messages that came for gateways, and that gateways sent
	Acks       uint64 // messages that gateways acknowledged
	AckMillis  uint64 // the sum of the times that those messages had waited, in milliseconds
	WaitingNow int    // messages that wait
}

// line is what happened in one slot.
type line struct {
	In, Out uint32
	Waiting uint32        // the most messages that waited at a time
	Delay   time.Duration // the average delay of the messages that were acknowledged, at least 1 ms; 0: there were none
}

// history keeps the lines of the last 24 hours, one for each slot, in memory only. The zero value is ready. Its methods
// may be called from any goroutine.
type history struct {
	mu    sync.Mutex // guards the fields below
	last  reading
	slots [slots]slot
	began bool // last is a reading
}

// slot is a line in the making.
type slot struct {
	number      int64 // slots since 1970; tells this day's from yesterday's
	line        line
	acks, delay uint64 // delay is in milliseconds
}

// add notes a reading. Totals that fell come from a restarted server: they count from zero.
func (h *history) add(now time.Time, r reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	number := now.UnixNano() / int64(slotFor)
	s := &h.slots[number%int64(slots)]
	if s.number != number {
		*s = slot{number: number}
	}
	if h.began {
		s.line.In += uint32(grown(h.last.In, r.In))
		s.line.Out += uint32(grown(h.last.Out, r.Out))
		s.acks += grown(h.last.Acks, r.Acks)
		s.delay += grown(h.last.AckMillis, r.AckMillis)
	}
	s.line.Waiting = max(s.line.Waiting, uint32(r.WaitingNow))
	if s.acks > 0 {
		s.line.Delay = max(time.Duration(s.delay/s.acks)*time.Millisecond, time.Millisecond)
	}
	h.last, h.began = r, true
}

// grown returns how much a total has grown.
func grown(from, to uint64) uint64 {
	if to < from {
		return to
	}
	return to - from
}

// lines returns the slots of the 24 hours before now, the oldest first; the last one is not over. Slots without a
// reading are zero.
func (h *history) lines(now time.Time) []line {
	h.mu.Lock()
	defer h.mu.Unlock()
	newest := now.UnixNano() / int64(slotFor)
	out := make([]line, slots)
	for i := range out {
		number := newest - int64(slots-1-i)
		if s := h.slots[number%int64(slots)]; s.number == number {
			out[i] = s.line
		}
	}
	return out
}
