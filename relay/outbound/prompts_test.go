package outbound

import (
	"testing"
	"time"
)

func TestOpenFor(t *testing.T) {
	for seconds, want := range map[float64]time.Duration{0: time.Hour, -3: time.Hour, 0.5: time.Second / 2, 90: 90 * time.Second, 86400: 24 * time.Hour, 1e300: 24 * time.Hour} {
		if got := openFor(seconds); got != want {
			t.Errorf("openFor(%g) = %s, want %s", seconds, got, want)
		}
	}
}
