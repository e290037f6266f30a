package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/relay/wire"
)

func TestSplitter(t *testing.T) {
	const a, b = `{"type":"a"}`, `{"type":"b"}`
	for name, tc := range map[string]struct {
		messages []string
		want     [][]string // what each message completes
	}{
		"one frame, one message":           {[]string{a + "\n"}, [][]string{{a}}},
		"two frames in a message":          {[]string{a + "\n" + b + "\n"}, [][]string{{a, b}}},
		"a frame over three messages":      {[]string{a[:3], a[3:7], a[7:] + "\n"}, [][]string{nil, nil, {a}}},
		"no newline at a message's end":    {[]string{a, b}, [][]string{{a}, {b}}},
		"the newline comes late":           {[]string{a, "\n", b + "\n"}, [][]string{{a}, nil, {b}}},
		"the last of two has none":         {[]string{a + "\n" + b}, [][]string{{a, b}}},
		"the rest closes it":               {[]string{a + "\n" + b[:5], b[5:]}, [][]string{{a}, {b}}},
		"blank lines and carriage returns": {[]string{"\r\n \n" + a + "\r\n\n"}, [][]string{{a}}},
		"blanks behind the object":         {[]string{a + " \r"}, [][]string{{a}}},
		"a brace inside a string":          {[]string{`{"t":"}`, `{\"}"`, `}`}, [][]string{nil, nil, {`{"t":"}{\"}"}`}}},
		"an escaped backslash at the end":  {[]string{`{"t":"\`, `\"`, `}`}, [][]string{nil, nil, {`{"t":"\\"}`}}},
		"objects in objects":               {[]string{`{"t":{}`, `}`}, [][]string{nil, {`{"t":{}}`}}},
		"garbage is a line like any other": {[]string{"garbage\n" + a + "\n"}, [][]string{{"garbage", a}}},
		"an array waits for its newline":   {[]string{"[1]", "\n"}, [][]string{nil, {"[1]"}}},
		"nothing":                          {[]string{"", "\n", " "}, [][]string{nil, nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			var s wire.Splitter
			for i, m := range tc.messages {
				lines, err := s.Feed([]byte(m))
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, line := range lines {
					got = append(got, string(line))
				}
				if diff := cmp.Diff(tc.want[i], got); diff != "" {
					t.Errorf("message %d (-want +got):\n%s", i+1, diff)
				}
			}
		})
	}
}

func TestSplitterIsBounded(t *testing.T) {
	full := strings.Repeat("x", wire.MaxFrame)
	for name, tc := range map[string]struct {
		messages []string
		fits     bool
	}{
		"the longest line":                {[]string{full + "\n"}, true},
		"the longest line, in two":        {[]string{full[:5], full[5:], "\n"}, true},
		"one byte more":                   {[]string{full + "x\n"}, false},
		"one byte more without an end":    {[]string{full, "x"}, false},
		"one byte more behind a newline":  {[]string{"a\n" + full, "x\n"}, false},
		"many lines, each short of it":    {[]string{full + "\n" + full + "\n"}, true},
		"a second line that is too large": {[]string{"a\nb\n" + full + "x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var s wire.Splitter
			var last error
			for _, m := range tc.messages {
				lines, err := s.Feed([]byte(m))
				if err != nil && lines != nil {
					t.Error("lines and an error")
				}
				last = err
			}
			if tc.fits && last != nil || !tc.fits && !errors.Is(last, wire.ErrTooLarge) {
				t.Errorf("Feed = %v, fits %v", last, tc.fits)
			}
		})
	}
}

// However a stream of frames is cut into messages, the same frames come out, and none is
// changed by what is fed later.
func TestSplitterFindsEveryFrame(t *testing.T) {
	var frames [][]byte
	for name := range golden() {
		frames = append(frames, readLines(t, name)...)
	}
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var want, got [][]byte
		for range rapid.IntRange(0, 8).Draw(t, "frames") {
			line := rapid.SampledFrom(frames).Draw(t, "frame")
			want = append(want, bytes.TrimSpace(line))
			stream = append(append(stream, bytes.TrimSpace(line)...), '\n')
		}
		var s wire.Splitter
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "message")
			lines, err := s.Feed(bytes.Clone(stream[:n]))
			if err != nil {
				t.Fatal(err)
			}
			got, stream = append(got, lines...), stream[n:]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("frames (-want +got):\n%s", diff)
		}
	})
}

func TestSplitterBoundsTheLinesOfAMessage(t *testing.T) {
	for name, tc := range map[string]struct {
		lines int
		want  error
	}{
		"as many as fit": {wire.MaxLines, nil},
		"one more":       {wire.MaxLines + 1, wire.ErrTooMany},
	} {
		t.Run(name, func(t *testing.T) {
			var s wire.Splitter
			lines, err := s.Feed([]byte(strings.Repeat("{}\n", tc.lines)))
			if !errors.Is(err, tc.want) || (err != nil) != (lines == nil) {
				t.Errorf("Feed = %d lines, %v, want %v", len(lines), err, tc.want)
			}
		})
	}
}
