package words

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/ops"
)

func TestLine(t *testing.T) {
	for want, got := range map[string]string{
		"hermes-connector status":                                             Line(ops.Status.Row),
		"hermes-connector gateway rotate home":                                Line(ops.Rotate.Row, "home"),
		"hermes-connector gateway identity home --revoke":                     Line(ops.DropIdentity.Row, "home"),
		"hermes-connector buffer replay home 7 8":                             Line(ops.Replay.Row, "home", "7", "8"),
		"hermes-connector chat release home pigeon":                           Line(ops.Release.Row, "home", "pigeon"),
		`hermes-connector unlink home --user 'pigeon:o'\''neil'`:              Line(ops.Unbind.Row, "home", "pigeon", "o'neil"),
		"hermes-connector link home --user 'pigeon:$(x)'":                     Line(ops.Bind.Row, "home", "pigeon", "$(x)"),
		"hermes-connector gateway policy home --platform pigeon --free -1001": Line(ops.SetRelevance.Row, "home", "pigeon", "--free", "-1001"),
		"hermes-connector link NAME":                                          Line(ops.Bind.Row, "NAME", "pigeon", ""),
	} {
		if got != want {
			t.Errorf("the line is %s, want %s", got, want)
		}
	}
}

func TestHelp(t *testing.T) {
	for want, help := range map[string][]string{
		"": nil,
		": hermes-connector gateway rotate home gives it new credentials": {"rotate", "home"},
		": hermes-connector chat list shows which gateway holds what":     {"scopes"},
		": hermes-connector serve starts one":                             {"serve"},
	} {
		if got := Help(&manage.Error{Help: help}); got != want {
			t.Errorf("%q helps with %q, want %q", help, got, want)
		}
	}
	for op, does := range helps {
		if op.Command == "" || does == "" {
			t.Errorf("%s helps nobody", op.Name)
		}
	}
}
