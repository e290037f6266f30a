package relay

import (
	"math"
	"testing"
	"time"
)

// TestMoment: whatever time a network says, JSON has it.
func TestMoment(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 7, time.UTC)
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for at, want := range map[time.Time]time.Time{
		now: now, time.Unix(-1, 0): time.Unix(0, 0).UTC(), time.Unix(math.MinInt64, 0): time.Unix(0, 0).UTC(), last: last,
		last.Add(time.Second): last, time.UnixMilli(math.MaxInt64): last, time.Unix(math.MaxInt64, 0): last,
	} {
		got := Moment(at)
		if _, err := got.MarshalJSON(); got != want || err != nil {
			t.Errorf("%v becomes %v, want %v; %v", at, got, want, err)
		}
	}
}
