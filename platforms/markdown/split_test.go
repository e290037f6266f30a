package markdown

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"
)

// limit is a dialect that knows nothing but how long a part may be.
type limit int

func (l limit) Reach(start int) int           { return start + int(l) }
func (limit) Words(int, int) func(i int) bool { return func(int) bool { return true } }
func (limit) Letters(int, int) bool           { return true }

// cut16 are the parts of s in UTF-16 units.
func cut16(s string, n limit) []string {
	sp := Splitter[uint16]{
		Text: utf16.Encode([]rune(s)), Limit: int(n),
		Decode: func(u []uint16) string { return string(utf16.Decode(u)) },
		Length: func(s string) int { return len(utf16.Encode([]rune(s))) },
	}
	var out []string
	for start, end := range sp.Parts(n) {
		out = append(out, sp.Decode(sp.Text[start:end]))
	}
	return out
}

// cut32 are the parts of s in characters.
func cut32(s string, n limit) []string {
	sp := Runes(s, int(n))
	var out []string
	for start, end := range sp.Parts(n) {
		out = append(out, string(sp.Text[start:end]))
	}
	return out
}

func TestLettersStayWhole(t *testing.T) {
	for name, letter := range map[string]string{
		"an accent": "e\u0301\u0301", "a family": "👩\u200d👩\u200d👧\u200d👦", "a flag": "🇩🇪", "Hangul": "\u1112\u1161\u11ab",
		"a vowel sign": "कि", "Thai": "ก\u0e33", "a skin": "👍🏽", "a keycap": "1\ufe0f\u20e3", "a variant": "❤\ufe0f",
	} {
		t.Run(name, func(t *testing.T) {
			want := []string{strings.Repeat("x", 18), letter + "xx"}
			if diff := cmp.Diff(want, cut16(want[0]+want[1], 19)); diff != "" {
				t.Errorf("in UTF-16 (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, cut32(want[0]+want[1], 19)); diff != "" {
				t.Errorf("in characters (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoLetterIsTooLong has a letter that is longer than a part: it is cut between code points.
func TestNoLetterIsTooLong(t *testing.T) {
	long := "e" + strings.Repeat("\u0301", 3*maxLetter)
	for name, parts := range map[string][]string{"UTF-16": cut16(long, maxLetter+10), "characters": cut32(long, maxLetter+10)} {
		if strings.Join(parts, "") != long || len(parts) != 3 {
			t.Errorf("in %s it became %q", name, parts)
		}
	}
	pairs := strings.Repeat("🏽", maxLetter) // modifiers, each of two units
	if parts := cut16(pairs, maxLetter+1); strings.Join(parts, "") != pairs || len(parts[0]) != len(pairs)/2 {
		t.Errorf("pairs became %q", parts)
	}
}

// TestACutNeedsNoMoreThanWhatStandsAroundIt: it is where somebody would cut who reads the part from its start.
func TestACutNeedsNoMoreThanWhatStandsAroundIt(t *testing.T) {
	letters := []string{
		"x", "é", "\u0301", "\u200d", "👩", "🏽", "🇩", "🇪", "\u1112", "\u1161", "\u11ab", "क", "\u094d", "ि", "\ufe0f", "\u0600",
	}
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SliceOfN(rapid.SampledFrom(letters), 1, 4).Draw(t, "letters")
		word := strings.Join(rapid.SliceOfN(rapid.SampledFrom(few), 400, 900).Draw(t, "word"), "")
		n := rapid.IntRange(4*maxLetter-5, 4*maxLetter+40).Draw(t, "limit")
		want, at, rest, state := 0, 0, word, -1
		for rest != "" {
			var letter string
			letter, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
			if at += utf8.RuneCountInString(letter); at > n {
				break
			}
			want = at
		}
		if want <= n-maxLetter {
			want = n // no character ends for a while
		}
		if got := utf8.RuneCountInString(cut32(word, limit(n))[0]); got != want {
			t.Fatalf("the first part has %d characters, want %d", got, want)
		}
	})
}
