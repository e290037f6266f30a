package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
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

// TestWhichCommandsNameTheShard: in hints, all that are about one database do, and no other words.
func TestWhichCommandsNameTheShard(t *testing.T) {
	others := []string{"demo", "serve", "handle", "mcp", "cluster", "completion", "healthcheck", "help", "version", "webhook"}
	for _, c := range Command().Commands() {
		if c.Hidden {
			continue
		}
		said := "the fix: `hermes-connector " + c.Name() + "`, hermes-connector says"
		want := strings.Replace(said, c.Name(), "--shard a "+c.Name(), 1)
		if slices.Contains(others, c.Name()) {
			want = said
		}
		if got := relay.InShard(said, "a"); got != want || relay.InShard(got, "b") != want || relay.InShard(said, "") != said {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
