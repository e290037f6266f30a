package terminal

import "testing"

func TestColumns(t *testing.T) {
	got := Columns([][]string{{"NAME", "STATE", "SINCE"}, {"häuser", "-", "now"}, {"a", "connected", "-"}})
	want := "NAME    STATE      SINCE\nhäuser  -          now\na       connected  -\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Columns(nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}
