// Package backoff says how long to pause before something that failed is tried again.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is the pause after failures in a row: First, then twice as long each time, at most Max. Each pause is
// shortened at random by up to half, so that bots do not all try at once. It is for one goroutine.
type Backoff struct {
	First, Max time.Duration
	Failures   int // so far, in a row
}

// Next returns the pause after one more failure.
func (b *Backoff) Next() time.Duration {
	d := b.First
	for n := b.Failures; n > 0 && d < b.Max; n-- {
		d *= 2
	}
	b.Failures++
	return Shortened(min(d, b.Max))
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.Failures = 0 }

// Shortened returns d less up to half of d, at random.
func Shortened(d time.Duration) time.Duration {
	if d < 2 {
		return d
	}
	return d - rand.N(d/2)
}

// Pause waits for d. It returns false when ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Keep calls try until try succeeds. After each failure it calls failed with the error and the length of the pause, and
// pauses. It returns false when ctx ended first.
func (b *Backoff) Keep(ctx context.Context, try func() error, failed func(err error, in time.Duration)) bool {
	for ctx.Err() == nil {
		err := try()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			break
		}
		in := b.Next()
		failed(err, in)
		Pause(ctx, in)
	}
	return false
}
