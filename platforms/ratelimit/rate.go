package ratelimit

import "time"

// Rate allows Burst messages at once and one more per Every. The zero Rate allows any number.
type Rate struct {
	Every time.Duration // 0 means no limit
	Burst int           // less than 1 means 1
}

// Meter measures one Rate. The limiter of golang.org/x/time/rate does not do: it counts in floating point, so that now
// and then a message passes a nanosecond early (against invariant 2), and does not say when a later message may pass.
type Meter struct {
	Rate Rate
	full time.Time // when the whole burst is there again
}

// Opens returns when one more message may pass, after as many others as ahead says.
func (m *Meter) Opens(ahead int, now time.Time) time.Time {
	if m.Rate.Every <= 0 {
		return now
	}
	spare := time.Duration(max(m.Rate.Burst, 1)-1-ahead) * m.Rate.Every
	return Later(m.full, now).Add(-spare)
}

// Take counts a message that passes.
func (m *Meter) Take(now time.Time) {
	if m.Rate.Every > 0 {
		m.full = Later(m.full, now).Add(m.Rate.Every)
	}
}

// Recovered reports whether the whole burst is there again.
func (m *Meter) Recovered(now time.Time) bool { return !m.full.After(now) }

// Later returns the later one of two moments.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
