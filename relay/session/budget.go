package session

import "time"

// budget is how much of something a gateway may use: burst at once, and rate more per second.
// The zero value allows nothing.
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
