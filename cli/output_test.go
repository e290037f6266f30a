package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// TestNothingReachesTheTerminalRaw: names come from networks and gateways.
func TestNothingReachesTheTerminalRaw(t *testing.T) {
	const evil = "ünï😀 \x1b]0;title\a\x1b[31m\u009b2J\u202ekcab\u2066\x7f\t\r\nline\x80"
	for name, show := range map[string]func(*app){
		"a cell":       func(a *app) { table(a.stdout, [][]any{{"NAME"}, {evil}}) },
		"JSON":         func(a *app) { _ = a.print(true, map[string]string{"name": evil}, nil) },
		"what is said": func(a *app) { a.say("no %s", evil) },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			show(&app{console: console{stdout: &out, stderr: &out}})
			got := out.String()
			if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%q at byte %d", got, i)
			}
			if !strings.Contains(got, "ünï😀 ") {
				t.Errorf("%q, want what can be seen as it is", got)
			}
		})
	}
	t.Run("JSON says the same", func(t *testing.T) {
		var out bytes.Buffer
		if err := (&app{console: console{stdout: &out}}).print(true, []string{"\u009b\U000e0041\x1b"}, nil); err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"\u009b\U000e0041\x1b"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("a cell stays on its line", func(t *testing.T) {
		var out bytes.Buffer
		table(&out, [][]any{{"a\nb\tc", "d"}})
		if got, want := out.String(), `a\nb\tc  d`+"\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestWarningsShowTheClockHere: moments stand in words as RFC 3339, which nobody reads on a clock.
func TestWarningsShowTheClockHere(t *testing.T) {
	at := time.Now().Add(-time.Minute)
	warnings := []string{"refused once, at " + finding.Stamp(at)}
	for name, show := range map[string]func(io.Writer){
		"of a gateway in status": func(w io.Writer) { gatewayTable(w, []manage.InstanceStatus{{ID: "home", Warnings: warnings}}, at) },
		"of a bot in status": func(w io.Writer) {
			calledTable(w, []manage.BotStatus{{Hook: &manage.HookStatus{}, Warnings: warnings}}, at)
		},
		"of a gateway by itself": func(w io.Writer) { warn(w, warnings) },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			show(&out)
			if want := "refused once, at " + finding.Clock(at) + "\n"; !strings.HasSuffix(out.String(), want) {
				t.Errorf("%q, want %q at the end", out.String(), want)
			}
		})
	}
}

// TestWhatCannotBePrintedIsAFailure: a secret is shown once, and the disk its lines go to may be full.
func TestWhatCannotBePrintedIsAFailure(t *testing.T) {
	full := errors.New("the disk is full")
	for _, asJSON := range []bool{false, true} {
		a := &app{console: console{stdout: failing{full}, stderr: io.Discard}}
		err := a.print(asJSON, "secret", func(w io.Writer) { _, _ = fmt.Fprintln(w, "secret") })
		if !errors.Is(err, full) {
			t.Errorf("as JSON %t: got %v", asJSON, err)
		}
	}
}

// failing is a writer that takes nothing.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestStatusFitsATerminal: a reason has its own line, however long it is, and says when the next try is.
func TestStatusFitsATerminal(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	reason := strings.Repeat("the network says that this will not do ", 5)
	var out bytes.Buffer
	botTable(&out, []manage.BotStatus{
		{Platform: "telegram", ID: "7000001", Name: "@homelab_bot", State: "bad_credentials", Since: now, Reason: reason, RetryAt: now.Add(1185 * time.Second), LastEventAt: now.Add(-time.Hour)},
		{Platform: "discord", ID: "1", Name: "home#1234", State: "connecting", RetryAt: now.Add(40 * time.Second)},
		{Platform: "sms", ID: "2", State: "connected"},
	}, now)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for _, l := range lines[:4] {
		if n := len([]rune(l)); n > 80 || strings.Contains(l, "the network says") {
			t.Errorf("a row of %d characters: %s", n, l)
		}
	}
	if want := []string{"telegram:7000001: " + reason + "; next try in 20 min", "discord:1: next try in 40 s"}; lines[4] != want[0] || lines[5] != want[1] {
		t.Errorf("%q, want %q", lines[4:], want)
	}
}
