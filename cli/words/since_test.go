package words

import (
	"testing"
	"time"
)

func TestSince(t *testing.T) {
	now := time.Date(2026, 11, 27, 14, 0, 0, 0, time.Local)
	for said, want := range map[string]time.Time{
		"2d": now.AddDate(0, 0, -2), " 12h ": now.Add(-12 * time.Hour), "1h30m": now.Add(-90 * time.Minute), "0d": now,
		"2026-11-26": time.Date(2026, 11, 26, 0, 0, 0, 0, time.Local), "2026-11-26 13:05": time.Date(2026, 11, 26, 13, 5, 0, 0, time.Local),
		"-2h": {}, "2026-11-28": {}, "d": {}, "": {}, "yesterday": {}, "99999d": {}, "-1d": {},
	} {
		if got, ok := Since(said, now); ok == want.IsZero() || ok && !got.Equal(want) {
			t.Errorf("%q is %v, %t; want %v", said, got, ok, want)
		}
	}
}
