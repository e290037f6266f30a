package relay_test

import (
	"regexp"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

// TestRandomTextBeginsWithALetter, is as long as it is said to be, and uses all symbols alike.
func TestRandomTextBeginsWithALetter(t *testing.T) {
	const n, draws = 9, 10_000
	for name, tc := range map[string]struct {
		draw    func() string
		form    *regexp.Regexp
		letters int
	}{
		"text": {func() string { return relay.RandomText(n) }, regexp.MustCompile(`^[a-z][a-z2-7]{8}$`), 26},
		"another alphabet": {func() string { return relay.RandomOf("0123456789ABCDEFGHJKMNPQRSTVWXYZ", n) },
			regexp.MustCompile(`^[A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z]{8}$`), 22},
	} {
		t.Run(name, func(t *testing.T) {
			first, rest := make(map[byte]int), make(map[byte]int)
			for range draws {
				s := tc.draw()
				if !tc.form.MatchString(s) {
					t.Fatalf("drew %q, want %s", s, tc.form)
				}
				first[s[0]]++
				for i := range len(s) - 1 {
					rest[s[i+1]]++
				}
			}
			// Twelve times the deviation that is to be expected is no accident.
			even := func(of string, count map[byte]int, symbols, draws int) {
				if len(count) != symbols {
					t.Errorf("%s: %d symbols, want %d", of, len(count), symbols)
				}
				want := draws / symbols
				for c, got := range count {
					if off := got - want; off*off > 144*want {
						t.Errorf("%s: %c came %d times, want about %d", of, c, got, want)
					}
				}
			}
			even("first", first, tc.letters, draws)
			even("the rest", rest, 32, draws*(n-1))
		})
	}
}
