package pace

import "time"

// Rate allows Burst messages at once and one more per Every. The zero Rate allows any number.
type Rate struct {
	Every time.Duration // 0 means no limit
	Burst int           // less than 1 means 1
}

// meter measures one Rate: full is when the whole burst is there again.
type meter struct {
	rate Rate
	full time.Time
}

// opens is when one more may pass after ahead others have.
func (m *meter) opens(ahead int, now time.Time) time.Time {
	if m.rate.Every <= 0 {
		return now
	}
	spare := time.Duration(max(m.rate.Burst, 1)-1-ahead) * m.rate.Every
	return later(m.full, now).Add(-spare)
}

func (m *meter) take(now time.Time) {
	if m.rate.Every > 0 {
		m.full = later(m.full, now).Add(m.rate.Every)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
