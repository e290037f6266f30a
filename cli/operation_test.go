package cli

import (
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay/ops"
)

// TestEveryOperationHasACommand: what the table says that the operator types is a command, with those arguments, and so is what they typed before, hidden.
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
		for n, arg := range args {
			name, flag := strings.CutPrefix(arg, "--")
			value := n > 0 && strings.HasPrefix(args[n-1], "--")
			if flag && c.Flag(name) == nil || !flag && !value && !strings.Contains(c.Use, strings.Trim(arg, "[]")) {
				t.Errorf("%q takes no %s, as %s needs", c.UseLine(), arg, op.Name)
			}
		}
		if op.Former == "" {
			continue
		}
		words, _ = ops.Split(op.Former)
		if former, rest, err := root.Find(words); err != nil || len(rest) > 0 || former.IsAvailableCommand() && former.Parent().IsAvailableCommand() || former.Flag("json") == nil {
			t.Errorf("%q is no hidden command as %s was", op.Former, op.Name)
		}
	}
}
