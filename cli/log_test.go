package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestLog: the level can be changed, JSON is one object a line, and no colour goes anywhere but to a terminal.
func TestLog(t *testing.T) {
	for name, tc := range map[string]struct {
		c    config.Log
		want string
	}{
		"text": {config.Log{}, "level=INFO msg=hello"},
		"json": {config.Log{JSON: true}, `"level":"INFO","msg":"hello"}`},
	} {
		var out bytes.Buffer
		var level slog.LevelVar
		log := (&app{console: console{stderr: &out}}).logger(tc.c, &level)
		log.Debug("nothing")
		log.Info("hello")
		level.Set(slog.LevelWarn)
		log.Info("nothing")
		if got := out.String(); !strings.Contains(got, tc.want) || strings.Contains(got, "nothing") || strings.Contains(got, "\x1b") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestLogsAreNotObeyed: a terminal on which a log is read obeys nothing that others named.
func TestLogsAreNotObeyed(t *testing.T) {
	for name, c := range map[string]config.Log{"text": {}, "json": {JSON: true}} {
		var out bytes.Buffer
		var level slog.LevelVar
		(&app{console: console{stderr: &out}}).logger(c, &level).Info("bot", "name", "a\n\x1b\u009b\u202e\u2066é")
		got := strings.TrimSuffix(out.String(), "\n")
		if i := strings.IndexFunc(got, func(r rune) bool { return !relay.Visible(r) }); i >= 0 || !strings.Contains(got, "é") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestColours: the level of each line, and nothing that a message made of it.
func TestColours(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(colours{&out}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	log.Debug("level=ERROR a")
	log.Error("level=DEBUG b")
	got := out.String()
	for _, want := range []string{"\x1b[2mlevel=DEBUG\x1b[0m msg=\"level=ERROR a\"\n", "\x1b[31mlevel=ERROR\x1b[0m msg=\"level=DEBUG b\"\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if strings.Count(got, "\x1b") != 4 {
		t.Errorf("%q", got)
	}
}

// still is a bot of which only the state is known.
type still struct {
	platforms.Bot
	status platforms.Status
}

func (s still) Status() platforms.Status { return s.status }
func (s still) ID() relay.Bot            { return relay.Bot{} }

// TestTried: a bot that waits for its next try was tried, and so was one that ended.
func TestTried(t *testing.T) {
	for name, tc := range map[string]struct {
		status platforms.Status
		tried  int
	}{
		"not begun":            {platforms.Status{State: platforms.Starting}, 0},
		"at it":                {platforms.Status{State: platforms.Connecting}, 0},
		"failed, tries again":  {platforms.Status{State: platforms.Connecting, RetryAt: time.Now()}, 1},
		"connected":            {platforms.Status{State: platforms.Connected}, 1},
		"degraded":             {platforms.Status{State: platforms.Degraded}, 1},
		"refused by the token": {platforms.Status{State: platforms.BadCredentials}, 1},
	} {
		if tried, all := triedOf([]platforms.Bot{still{status: tc.status}}); tried != tc.tried || all != 1 {
			t.Errorf("%s: %d of %d, want %d of 1", name, tried, all, tc.tried)
		}
	}
}
