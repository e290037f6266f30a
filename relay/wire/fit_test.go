package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

const longestBuffer = "ffffffffffffffff-18446744073709551615"

func frameSize(t rapid.TB, ev relay.Event) int {
	t.Helper()
	line, err := wire.Encode(wire.Inbound{Event: ev, Buffer: longestBuffer})
	if err != nil {
		t.Fatal(err)
	}
	return len(line)
}

func contextOf(lines, bytes int) []relay.ContextLine {
	var out []relay.ContextLine
	for i := range lines {
		out = append(out, relay.ContextLine{UserName: fmt.Sprint("user ", i), Text: strings.Repeat("x", bytes)})
	}
	return out
}

func TestFitInbound(t *testing.T) {
	plain := plainEvent()
	room := wire.MaxFrame - 1 - frameSize(t, plain) // how much more text fits
	for name, tc := range map[string]struct {
		change func(*relay.Event)
		fits   bool
		lines  int // context lines left
	}{
		"a plain event":              {func(*relay.Event) {}, true, 0},
		"context that fits":          {func(ev *relay.Event) { ev.Context = contextOf(10, 1000) }, true, 10},
		"the last byte that fits":    {func(ev *relay.Event) { ev.Text += strings.Repeat("x", room) }, true, 0},
		"one more":                   {func(ev *relay.Event) { ev.Text += strings.Repeat("x", room+1) }, false, 0},
		"escapes count":              {func(ev *relay.Event) { ev.Text += strings.Repeat("\x01", room/6+1) }, false, 0},
		"too much context":           {func(ev *relay.Event) { ev.Context = contextOf(3, 400_000) }, true, 2},
		"a line as long as a frame":  {func(ev *relay.Event) { ev.Context = contextOf(1, wire.MaxFrame) }, true, 0},
		"no room for any context":    {func(ev *relay.Event) { ev.Text += strings.Repeat("x", room-20); ev.Context = contextOf(5, 1) }, true, 0},
		"too long even without it":   {func(ev *relay.Event) { ev.Text += strings.Repeat("x", room+1); ev.Context = contextOf(5, 1) }, false, 0},
		"an old line does not skip ": {func(ev *relay.Event) { ev.Context = append(contextOf(1, 10), contextOf(2, 600_000)...) }, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ev := plainEvent()
			tc.change(&ev)
			before := len(ev.Context)
			got, ok := wire.FitInbound(ev)
			if ok != tc.fits || len(got.Context) != tc.lines {
				t.Fatalf("FitInbound = %d lines, %v; want %d, %v", len(got.Context), ok, tc.lines, tc.fits)
			}
			if len(ev.Context) != before {
				t.Error("the caller's event changed")
			}
			if ok && frameSize(t, got) >= wire.MaxFrame {
				t.Errorf("frame of %d bytes", frameSize(t, got))
			}
		})
	}
}

// Whatever the event: what is returned fits, is the newest part, and could not be longer.
func TestFitInboundKeepsTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := plainEvent()
		for range rapid.IntRange(0, 6).Draw(t, "lines") {
			unit := rapid.SampledFrom([]string{"x", "é", "\n", "<", "\xff", "\u2028", "🦆"}).Draw(t, "unit")
			n := rapid.IntRange(0, 300_000).Draw(t, "n")
			ev.Context = append(ev.Context, relay.ContextLine{UserID: "7", Text: strings.Repeat(unit, n/len(unit))})
		}
		got, ok := wire.FitInbound(ev)
		if !ok || frameSize(t, got) >= wire.MaxFrame {
			t.Fatalf("fits %v, size %d", ok, frameSize(t, got))
		}
		first := len(ev.Context) - len(got.Context)
		if diff := cmp.Diff(ev.Context[first:], got.Context); len(got.Context) > 0 && diff != "" {
			t.Fatal("not the newest lines")
		}
		if first > 0 {
			ev.Context = ev.Context[first-1:]
			// The trimming counts a comma for each line and the key's own: a few bytes of slack.
			if frameSize(t, ev) < wire.MaxFrame-32 {
				t.Fatalf("one more line would have fitted: %d bytes", frameSize(t, ev))
			}
		}
	})
}
