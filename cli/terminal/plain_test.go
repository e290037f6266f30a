package terminal

import (
	"errors"
	"testing"
)

func TestWhatCannotBeSeenIsSpelled(t *testing.T) {
	for name, tc := range map[string]struct {
		show       func(string) string
		text, want string
	}{
		"a word":  {Plain, "ü😀\x1b[31m\n", `ü😀\x1b[31m\n`},
		"joined":  {Plain, "👨\u200d👩", "👨\u200d👩"},
		"lines":   {Lines, "a\x07\nb\u202ec", "a\\a\nb\\u202ec"},
		"in JSON": {JSON, "{\"n\":\"\u009b\U000e0041\"}\n", "{\"n\":\"\\u009b\\udb40\\udc41\"}\n"},
	} {
		if got := tc.show(tc.text); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestArgumentsMakeNoLines: what stands in a line's arguments is foreign, but for text of ours.
func TestArgumentsMakeNoLines(t *testing.T) {
	type id string
	got := Sprintf("%s|%v|%s|%d|%s\n", "a\nb", errors.New("c\x1b"), id("d\ne"), 7, Text("f\ng\u009b"))
	if want := "a\\nb|c\\x1b|d\\ne|7|f\ng\\u009b\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
