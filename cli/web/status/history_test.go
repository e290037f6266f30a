package status

import (
	"testing"
	"time"
)

func TestHistory(t *testing.T) {
	var h history
	h.add(noon, reading{In: 100, Out: 50, Acks: 90, AckMillis: 9000, WaitingNow: 3}) // what was before the first reading is not of today
	h.add(noon.Add(time.Minute), reading{In: 103, Out: 51, Acks: 92, AckMillis: 9500, WaitingNow: 7})
	h.add(noon.Add(2*time.Minute), reading{In: 104, Out: 51, Acks: 92, AckMillis: 9500, WaitingNow: 1})
	h.add(noon.Add(11*time.Minute), reading{In: 106, Out: 60, Acks: 93, AckMillis: 9510})
	h.add(noon.Add(12*time.Minute), reading{In: 2, Out: 1}) // of another start
	lines := h.lines(noon.Add(15 * time.Minute))
	if len(lines) != slots {
		t.Fatalf("%d lines, want %d", len(lines), slots)
	}
	for back, want := range map[int]line{
		2: {In: 4, Out: 1, Waiting: 7, Delay: 250 * time.Millisecond},
		1: {In: 4, Out: 10, Delay: 10 * time.Millisecond},
		3: {},
	} {
		if got := lines[slots-back]; got != want {
			t.Errorf("line %d from the end: %+v, want %+v", back, got, want)
		}
	}
	for i, l := range h.lines(noon.Add(25 * time.Hour)) {
		if l != (line{}) {
			t.Errorf("a day later line %d is %+v", i, l)
		}
	}
	h.add(noon.Add(24*time.Hour), reading{In: 5, Out: 1})
	if got := h.lines(noon.Add(24 * time.Hour)); got[slots-1] != (line{In: 3}) {
		t.Errorf("the same time of the next day: %+v, want what came then", got[slots-1])
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
	jagged := make([]float64, slots)
	for i := range jagged {
		jagged[i] = float64(i * 7919 % 40)
	}
	if n := len(outline(jagged)); n > 3<<9 { // it stands on the page twice
		t.Errorf("%d bytes, want at most 1.5 KiB", n)
	}
}

// TestAQuickMessageHasADelay: one that was taken within a millisecond is not none.
func TestAQuickMessageHasADelay(t *testing.T) {
	var h history
	now := time.Unix(1_800_000_000, 0)
	h.add(now, reading{})
	h.add(now, reading{Acks: 3})
	if got := h.lines(now)[slots-1].Delay; got != time.Millisecond {
		t.Errorf("its delay is %s, want 1ms", got)
	}
}

// TestWhatChartsSay: how many, when the most, and the hours below.
func TestWhatChartsSay(t *testing.T) {
	v := view{At: noon.Add(3 * time.Minute), lines: make([]line, slots)}
	v.lines[slots-1], v.lines[40] = line{In: 3, Waiting: 2}, line{In: 17, Delay: 1500 * time.Millisecond}
	c := v.Charts()
	for n, want := range []chart{
		{Words: "20 in all, at most 17 in 10 minutes", Top: "17"}, {Words: "none"},
		{Words: "at most 2", Top: "2"}, {Words: "at most 1.5 s on average over 10 minutes", Top: "1.5 s"},
	} {
		if c[n].Words != want.Words || c[n].Top != want.Top {
			t.Errorf("%s: %q with %q on top, want %q with %q", c[n].Title, c[n].Words, c[n].Top, want.Words, want.Top)
		}
	}
	if h := v.Hours(); len(h) != 4 || !h[0].Equal(noon.Add(-24*time.Hour)) || !h[3].Equal(noon.Add(-6*time.Hour)) {
		t.Errorf("the hours are %v", h)
	}
}
