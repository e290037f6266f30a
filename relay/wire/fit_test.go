package wire_test

import (
	"fmt"
	"slices"
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

// packed is the event in the frame that Pack makes of ev, as it was given when that does not fit.
func packed(t rapid.TB, ev relay.Event) (relay.Event, bool) {
	t.Helper()
	line, fits := wire.Pack(ev)
	f, err := wire.DecodeFromConnector(line)
	if err != nil {
		t.Fatal(err)
	}
	got := f.(wire.Inbound).Event
	if again, ok := wire.Unpack(line); !ok || !cmp.Equal(again, got) {
		t.Fatalf("Unpack = %+v, %v; want %+v", again, ok, got)
	}
	return got, fits
}

func TestPackLeavesOutContextThatDoesNotFit(t *testing.T) {
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
			got, ok := packed(t, ev)
			if ok != tc.fits || ok && len(got.Context) != tc.lines {
				t.Fatalf("Pack = %d lines, %v; want %d, %v", len(got.Context), ok, tc.lines, tc.fits)
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
func TestPackKeepsTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := plainEvent()
		for range rapid.IntRange(0, 6).Draw(t, "lines") {
			unit := rapid.SampledFrom([]string{"x", "é", "\n", "<", "\xff", "\u2028", "🦆"}).Draw(t, "unit")
			n := rapid.IntRange(0, 300_000).Draw(t, "n")
			ev.Context = append(ev.Context, relay.ContextLine{UserID: "7", Text: strings.Repeat(unit, n/len(unit))})
		}
		got, ok := packed(t, ev)
		if !ok || frameSize(t, got) >= wire.MaxFrame {
			t.Fatalf("fits %v, size %d", ok, frameSize(t, got))
		}
		first := len(ev.Context) - len(got.Context)
		want := slices.Clone(ev.Context[first:])
		for i := range want {
			want[i].Text = string([]rune(want[i].Text)) // as a frame has it
		}
		if diff := cmp.Diff(want, got.Context); len(got.Context) > 0 && diff != "" {
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

func TestAPackedFrameIsTheDeliverysUnderItsID(t *testing.T) {
	id := relay.BufferID{Epoch: 0x9f3c0000000000aa, Seq: 17}
	for name, tc := range map[string]struct {
		delivery relay.Delivery
		frame    func(buffer string) wire.Frame
	}{
		"an event":         {richEvent(), func(b string) wire.Frame { return wire.Inbound{Event: richEvent(), Buffer: b} }},
		"a forward":        {richForward(), func(b string) wire.Frame { return wire.PassthroughForward{Forward: richForward(), Buffer: b} }},
		"an empty forward": {relay.Forward{}, func(b string) wire.Frame { return wire.PassthroughForward{Buffer: b} }},
	} {
		t.Run(name, func(t *testing.T) {
			line, fits := wire.Pack(tc.delivery)
			if !fits {
				t.Fatal("it does not fit")
			}
			for _, buffer := range []relay.BufferID{id, {}} {
				b := buffer.String()
				if buffer.IsZero() {
					b = ""
				}
				want, err1 := wire.Encode(tc.frame(b))
				got, err2 := wire.Encode(wire.Packed{Line: line, Buffer: buffer})
				if string(got) != string(want) || err1 != nil || err2 != nil {
					t.Errorf("%q, want %q; %v, %v", got, want, err1, err2)
				}
			}
		})
	}
	for _, line := range []string{"", "}\n", "{}", "[]\n"} {
		if got, err := wire.Encode(wire.Packed{Line: []byte(line), Buffer: id}); err == nil {
			t.Errorf("%q became %q", line, got)
		}
	}
	if line, fits := wire.Pack(relay.Forward{Body: make([]byte, wire.MaxFrame)}); fits || len(line) < wire.MaxFrame {
		t.Errorf("a forward as long as a frame: %d bytes, %v", len(line), fits)
	}
}

// TestAJoinedTextFitsAFrame: one as long as relay.MaxText, with everything else that an event may have.
func TestAJoinedTextFitsAFrame(t *testing.T) {
	ev := plainEvent()
	ev.Text = strings.Repeat("漢", relay.MaxText/3-1)
	ev.ReplyToMessageID, ev.ReplyTo = "1", &relay.Quote{Text: strings.Repeat("\x01", 4096), Author: strings.Repeat("漢", 256)}
	name := strings.Repeat("漢", 256)
	ev.Source.ChatName, ev.Source.ChatTopic, ev.Source.UserName, ev.Source.UserDisplayName = name, strings.Repeat("漢", 1024), name, name
	for n := range relay.MaxAttachments {
		ev.Media = append(ev.Media, relay.Media{URL: fmt.Sprint("https://relay.example.net/relay/media/", n), Filename: name, Mime: "text/plain"})
	}
	if !wire.Fits(ev) {
		t.Errorf("a frame of %d bytes", frameSize(t, ev))
	}
}
