package session

import (
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// budget is how much of something a gateway may use: burst at once, and rate more per second.
// The zero value allows nothing. (rate.Limiter cannot be given back what did not count after all.)
type budget struct {
	burst, rate float64
	used        float64   // of burst, at the time at
	at          time.Time // of the last use
}

// use takes n and reports whether that was still within the budget.
func (b *budget) use(n float64, now time.Time) bool {
	b.used = max(0, b.used-b.rate*now.Sub(b.at).Seconds()) + n
	b.at = now
	return b.used <= b.burst
}

// giveBack returns n: it did not count after all.
func (b *budget) giveBack(n float64) { b.used = max(0, b.used-n) }

// maxActing bounds what the actions of a session hold while they wait and run, as the bytes of their
// frames: one of the largest, or 256 that fill a message each.
const maxActing = wire.MaxFrame

// acting is how much of maxActing is in use. Any goroutine may release some; only the reader takes.
type acting struct{ bytes atomic.Int64 }

// add takes n bytes, or releases them when n is negative. It reports false, and takes nothing, when
// that would be too much.
func (a *acting) add(n int) bool {
	if a.bytes.Add(int64(n)) <= maxActing || n <= 0 {
		return true
	}
	a.bytes.Add(-int64(n))
	return false
}
