package terminal

import "testing"

func TestWhatCannotBeSeenIsSpelled(t *testing.T) {
	for name, tc := range map[string]struct {
		show       func(string) string
		text, want string
	}{
		"a word":  {Plain, "ü😀\x1b[31m\n", `ü😀\x1b[31m\n`},
		"lines":   {Lines, "a\x07\nb\u202ec", "a\\a\nb\\u202ec"},
		"in JSON": {JSON, "{\"n\":\"\u009b\U000e0041\"}\n", "{\"n\":\"\\u009b\\udb40\\udc41\"}\n"},
	} {
		if got := tc.show(tc.text); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
