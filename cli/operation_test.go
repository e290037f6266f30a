package cli

import (
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// TestEveryOperationHasACommand: what the table says that the operator types is a command, with those arguments.
func TestEveryOperationHasACommand(t *testing.T) {
	root := Command()
	for _, op := range ops.All() {
		if op.Command == "" {
			continue
		}
		words, args := op.Words()
		c, rest, err := root.Find(words)
		if err != nil || len(rest) > 0 {
			t.Errorf("%s: there is no command %q", op.Name, strings.Join(words, " "))
			continue
		}
		for _, arg := range args {
			if name, flag := strings.CutPrefix(arg, "--"); flag && c.Flag(name) == nil || !flag && !strings.Contains(c.Use, strings.Trim(arg, "[]")) {
				t.Errorf("%q takes no %s, as %s needs", c.UseLine(), arg, op.Name)
			}
		}
	}
}
