package discord

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is how long to pause after failures in a row: first, then twice as long each time, at
// most max; each pause shortened at random by up to half, so that bots do not march in step.
type backoff struct {
	first, max time.Duration
	failures   int
}

// next is the pause after one more failure.
func (b *backoff) next() time.Duration {
	d := b.first
	for range b.failures {
		if d >= b.max {
			break
		}
		d *= 2
	}
	b.failures++
	return shortened(min(d, b.max))
}

// reset forgets the failures.
func (b *backoff) reset() { b.failures = 0 }

// shortened takes up to half off d, at random.
func shortened(d time.Duration) time.Duration {
	if d < 2 {
		return d
	}
	return d - rand.N(d/2)
}

// pause waits for d. It returns false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
