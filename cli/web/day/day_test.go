package day

import (
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func TestBook(t *testing.T) {
	var b Book
	b.Add(noon, Reading{In: 100, Out: 50, Acks: 90, AckMillis: 9000, WaitingNow: 3}) // what was before the first reading is not of today
	b.Add(noon.Add(time.Minute), Reading{In: 103, Out: 51, Acks: 92, AckMillis: 9500, WaitingNow: 7})
	b.Add(noon.Add(2*time.Minute), Reading{In: 104, Out: 51, Acks: 92, AckMillis: 9500, WaitingNow: 1})
	b.Add(noon.Add(11*time.Minute), Reading{In: 106, Out: 60, Acks: 93, AckMillis: 9510})
	b.Add(noon.Add(12*time.Minute), Reading{In: 2, Out: 1}) // of another start
	lines := b.Lines(noon.Add(15 * time.Minute))
	if len(lines) != Slots {
		t.Fatalf("%d lines, want %d", len(lines), Slots)
	}
	for back, want := range map[int]Line{
		2: {In: 4, Out: 1, Waiting: 7, Delay: 250 * time.Millisecond},
		1: {In: 4, Out: 10, Delay: 10 * time.Millisecond},
		3: {},
	} {
		if got := lines[Slots-back]; got != want {
			t.Errorf("line %d from the end: %+v, want %+v", back, got, want)
		}
	}
	for i, l := range b.Lines(noon.Add(25 * time.Hour)) {
		if l != (Line{}) {
			t.Errorf("a day later line %d is %+v", i, l)
		}
	}
	b.Add(noon.Add(24*time.Hour), Reading{In: 5, Out: 1})
	if got := b.Lines(noon.Add(24 * time.Hour)); got[Slots-1] != (Line{In: 3}) {
		t.Errorf("the same time of the next day: %+v, want what came then", got[Slots-1])
	}
}

func TestOutline(t *testing.T) {
	for name, tc := range map[string]struct {
		values []float64
		want   string
	}{
		"nothing happened":      {make([]float64, 144), "M0 40L143 40"},
		"from zero to the most": {[]float64{0, 5, 10}, "M0 40L1 20L2 0"},
		"a plateau":             {[]float64{0, 4, 4, 4, 4, 0}, "M0 40L1 0L4 0L5 40"},
		"always the same":       {[]float64{7, 7, 7}, "M0 0L2 0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outline(tc.values); got != tc.want {
				t.Errorf("outline = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestChartSize(t *testing.T) {
	jagged := make([]float64, Slots)
	for i := range jagged {
		jagged[i] = float64(i * 7919 % 40)
	}
	got := string(html.Fragment(Chart("Messages in", jagged)))
	if len(got) > 3<<10 || !strings.Contains(got, `aria-label="Messages in"`) {
		t.Errorf("%d bytes, want at most 3 KiB with a name: %.200s", len(got), got)
	}
}

// TestAQuickMessageHasADelay: one that was taken within a millisecond is not none.
func TestAQuickMessageHasADelay(t *testing.T) {
	var b Book
	now := time.Unix(1_800_000_000, 0)
	b.Add(now, Reading{})
	b.Add(now, Reading{Acks: 3})
	if got := b.Lines(now)[Slots-1].Delay; got != time.Millisecond {
		t.Errorf("its delay is %s, want 1ms", got)
	}
}
