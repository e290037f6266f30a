package relay_test

import (
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
)

func TestPanicWords(t *testing.T) {
	if got := relay.PanicWords("what Ann wrote"); got != "a string" {
		t.Errorf("a text is %q", got)
	}
	defer func() {
		if got := relay.PanicWords(recover()); !strings.Contains(got, "index out of range") {
			t.Errorf("a runtime error is %q", got)
		}
	}()
	var list []int
	_ = list[len(list)]
}
