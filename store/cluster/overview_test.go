package cluster

import (
	"testing"
	"time"
)

func TestHowLongAppendsTake(t *testing.T) {
	t.Parallel()
	var a appends
	now := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	if got := a.p99(now); got != 0 {
		t.Errorf("of none: %v", got)
	}
	a.add(now.Add(-appendsAge), time.Hour) // too long ago
	for n := range 100 {
		a.add(now.Add(-time.Minute), time.Duration(n)*time.Millisecond)
	}
	if got := a.p99(now); got != 99*time.Millisecond {
		t.Errorf("of a hundred: %v", got)
	}
	if got := a.p99(now.Add(appendsAge)); got != 0 {
		t.Errorf("later: %v", got)
	}
	for range appendsKept + 5 {
		a.add(now, time.Second)
	}
	if len(a.at) != appendsKept || len(a.took) != appendsKept {
		t.Errorf("%d and %d are kept", len(a.at), len(a.took))
	}
}
