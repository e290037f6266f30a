//go:build unix

package terminal

import (
	"slices"
	"strings"
	"testing"
)

// TestOnlyWhatMayBeSeenIsShown: a token that is pasted at a menu is not on the screen even for a moment.
func TestOnlyWhatMayBeSeenIsShown(t *testing.T) {
	menu := Prefix("1", "2", "here", "back")
	for name, tc := range map[string]struct {
		may          func(string) bool
		keys         string // "|" stands between what does not come together
		shown        string
		lines        []string
		end          bool
		before, then string // typed before anything may be seen, and shown as soon as it may
	}{
		"an option":                {may: menu, keys: "here\n", shown: "here", lines: []string{"here"}},
		"in another case":          {may: menu, keys: "Ba", shown: "Ba"},
		"a token":                  {may: menu, keys: "123456:AAHd\n", lines: []string{"123456:AAHd"}},
		"a token that is typed":    {may: menu, keys: "1|2|3|456:AAHd|\n", shown: "1", lines: []string{"123456:AAHd"}},
		"a token of letters":       {may: menu, keys: "MTIz.abc\r", lines: []string{"MTIz.abc"}},
		"in a frame":               {may: menu, keys: "\x1b[200~MTIz\x1b[201~\n", lines: []string{"MTIz"}},
		"several lines":            {may: nothing, keys: "a\nb\n", lines: []string{"a", "b"}},
		"a mistake":                {may: menu, keys: "hx\x7fere\n", shown: "here", lines: []string{"here"}},
		"a mistake that was seen":  {may: menu, keys: "he|\x7f\n", shown: "he\b \b", lines: []string{"h"}},
		"one too many":             {may: menu, keys: "\x7f\b2", shown: "2"},
		"all of it":                {may: menu, keys: "he|\x152\n", shown: "he\b \b\b \b2", lines: []string{"2"}},
		"a letter of two bytes":    {may: func(string) bool { return true }, keys: "f\xc3|\xbc|\x7f|u", shown: "fü\b \bu"},
		"arrows and other keys":    {may: menu, keys: "\x1b[A\x1b[1;5C\x1bOP\x1bx\x01h", shown: "h"},
		"the end":                  {may: menu, keys: "\x04rest", end: true},
		"no end within a line":     {may: menu, keys: "h\x04e", shown: "he"},
		"typed ahead":              {before: "he", may: menu, then: "he", keys: "re\n", shown: "re", lines: []string{"here"}},
		"a token that was ahead":   {before: "123456:A", may: menu, keys: "A\n", lines: []string{"123456:AA"}},
		"beside an answer's words": {may: menu, keys: "here|s\n", shown: "here", lines: []string{"heres"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			typist := Typist{set: func(bool) {}, editor: editor{out: &out, may: nothing}}
			if typist.typed([]byte(tc.before)); out.Len() > 0 {
				t.Errorf("before anything may be seen %q is shown", out.String())
			}
			typist.Show(tc.may)
			if out.String() != tc.then {
				t.Errorf("shown at once: %q, want %q", out.String(), tc.then)
			}
			out.Reset()
			var lines []string
			end := false
			for keys := range strings.SplitSeq(tc.keys, "|") {
				var more []string
				more, end = typist.typed([]byte(keys))
				lines = append(lines, more...)
			}
			if out.String() != tc.shown || !slices.Equal(lines, tc.lines) || end != tc.end {
				t.Errorf("shown %q, lines %q, end %t; want %q, %q, %t", out.String(), lines, end, tc.shown, tc.lines, tc.end)
			}
		})
	}
}
