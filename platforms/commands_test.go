package platforms_test

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
)

func TestSlashed(t *testing.T) {
	var c platforms.CommandNames
	c.KnowCommands([]string{"Weather", "status"})
	for text, want := range map[string]string{
		"!new":                "/new",
		"  !stop now, please": "/stop now, please",
		"!STOP":               "/STOP",
		"!link\nKQ2-9F4-M7X":  "/link\nKQ2-9F4-M7X",
		"!weather in Ulm":     "/weather in Ulm",
		"!reload-mcp":         "/reload-mcp",
		"!":                   "!",
		"! new":               "! new",
		"!!new":               "!!new",
		"!news":               "!news",
		"!new!":               "!new!",
		"new":                 "new",
		"/new":                "/new",
		"well !new":           "well !new",
		" !wow":               " !wow",
		"":                    "",
	} {
		got, ok := c.Slashed(text)
		if got != want || ok != (want != text) {
			t.Errorf("%q becomes %q, %v; want %q", text, got, ok, want)
		}
	}
	c.KnowCommands(nil)
	if got, ok := c.Slashed("!weather"); ok {
		t.Errorf("a command that no gateway has any more: %q", got)
	}
}
