package relay

import "testing"

func TestShown(t *testing.T) {
	for in, want := range map[string]string{
		"Homelab Bot":                      "Homelab Bot",
		" pi\r\n✓ you are linked\n":        "pi  ✓ you are linked",
		"a\u2028b\u2029c\u0085d\ve":        "a b c d e",
		"\x1b[31mred\x07\u009b2J\x00":      "[31mred2J",
		"abc\u202efdp.exe\u2066\u200f":     "abcfdp.exe",
		"👨\u200d👩\u200d👧 é می\u200cخواهم":  "👨\u200d👩\u200d👧 é می\u200cخواهم",
		"\U000e0041tags\ufeff\u200b\ue000": "tags",
		"\xff\xfe":                         "\uFFFD",
	} {
		if got := Shown(in); got != want {
			t.Errorf("Shown(%q) = %q, want %q", in, got, want)
		}
	}
}
