package wire_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

func FuzzDecodeFromGateway(f *testing.F) { fuzzDecoder(f, wire.DecodeFromGateway) }

func FuzzDecodeFromConnector(f *testing.F) { fuzzDecoder(f, wire.DecodeFromConnector) }

// fuzzDecoder holds invariants 2, 3 and 4.
func fuzzDecoder(f *testing.F, decode func([]byte) (wire.Frame, error)) {
	for name := range golden() {
		for _, line := range readLines(f, name) {
			f.Add(line)
		}
	}
	for _, seed := range []string{
		"", "null", "[]", `{"type":5}`, `{"type":"outbound","requestId":1e3,"action":{"op":"draft","chat_id":-0,"draft_id":1e2}}`,
		`{"type":"outbound","requestId":"1","action":{"op":"send","op":"edit"}}`,
		`{"type":"outbound_result","requestId":"1","result":{"retry_after":0.0000000015,"message_ids":[1,[2]]}}`,
		"{\"type\":\"hello\",\"command_manifest\":[{\"\xff\":\"\\ud83d\"}, 5]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		frame, err := decode(line)
		if (frame == nil) == (err == nil) {
			t.Fatalf("frame %+v and error %v", frame, err)
		}
		if err != nil {
			return
		}
		again, err := wire.Encode(frame)
		if err != nil {
			t.Fatalf("Encode(%+v): %v", frame, err)
		}
		checkLine(t, again)
		second, err := decode(again)
		if err != nil {
			t.Fatalf("decode %s: %v", again, err)
		}
		if diff := cmp.Diff(normal(frame), normal(second)); diff != "" {
			t.Errorf("frame changed on the way (-first +second):\n%s", diff)
		}
	})
}

// normal forgets which fault made an action unusable: with the fault go the fields behind it.
func normal(f wire.Frame) wire.Frame {
	out, ok := f.(wire.Outbound)
	if !ok {
		return f
	}
	if a, ok := out.Action.(relay.UnknownAction); ok && a.Reason != "" {
		a.Reason = "unusable"
		out.Action = a
	}
	return out
}

// Whatever a peer sends: lines come out in order, whole and without newlines, nothing is
// invented, and nothing but the unfinished line is kept back.
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("{\"type\":\"a\"}\n{\"t"), []byte("ype\":\"b\"}"), []byte{3})
	f.Add([]byte("}{\n{}"), []byte("\n\n\"\\"), []byte{})
	f.Add(bytes.Repeat([]byte("x\n "), 50), []byte(`{"a":"\"}"}`), []byte{1, 0, 2})
	f.Add([]byte("\xce\n"), []byte("\x91{}"), []byte{0})
	f.Fuzz(func(t *testing.T, first, second, cuts []byte) {
		stream := append(bytes.Clone(first), second...)
		var s wire.Splitter
		var out []byte
		for rest := stream; len(rest) > 0; {
			n := len(rest)
			if len(cuts) > 0 {
				n, cuts = min(n, int(cuts[0])+1), cuts[1:]
			}
			lines, err := s.Feed(bytes.Clone(rest[:n]))
			if err != nil {
				if lines != nil || len(stream) <= wire.MaxFrame {
					t.Fatalf("lines %q and error %v over a stream of %d bytes", lines, err, len(stream))
				}
				return
			}
			rest = rest[n:]
			for _, line := range lines {
				if len(line) == 0 || len(line) > wire.MaxFrame || bytes.ContainsAny(line, "\n") {
					t.Fatalf("line %q", line)
				}
				out = append(out, line...)
			}
		}
		tail, err := s.Feed([]byte("\n")) // whatever is left is one line
		if err != nil || len(tail) > 1 {
			t.Fatalf("the rest is %q, %v", tail, err)
		}
		out = append(out, bytes.Join(tail, nil)...)
		if got, want := squeeze(out), squeeze(stream); !bytes.Equal(got, want) {
			t.Errorf("lines %q of stream %q", got, want)
		}
	})
}

// squeeze drops JSON's blanks, which frame ends may lose.
func squeeze(b []byte) []byte {
	return slices.DeleteFunc(bytes.Clone(b), func(c byte) bool { return bytes.IndexByte([]byte(" \t\r\n"), c) >= 0 })
}
