package finding

import (
	"testing"
	"time"
)

// TestMoments: words say when it was where they are read, whatever else is in them.
func TestMoments(t *testing.T) {
	at, late := time.Now().Add(-time.Hour).Truncate(time.Second), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for words, want := range map[string]string{
		"":                                     "",
		"nothing":                              "nothing",
		"since " + Stamp(at):                   "since " + Clock(at),
		Stamp(at) + " to " + Stamp(late) + "!": Clock(at) + " to " + Clock(late) + "!",
		"on 2026-13-77T99:99:99Z":              "on 2026-13-77T99:99:99Z",
	} {
		if got := Local(words); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
		whole := ""
		for text, at := range Moments(words) {
			if whole += text; !at.IsZero() {
				whole += Stamp(at)
			}
		}
		if whole != words {
			t.Errorf("%q: the pieces are %q", words, whole)
		}
	}
}
