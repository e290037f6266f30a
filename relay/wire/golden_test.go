package wire_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

var update = flag.Bool("update", false, "rewrite the golden frames in testdata/wire")

const goldenDir = "../../testdata/wire"

// golden maps a file to the frames in it, the richest first. What a file's name begins with
// says who writes such a frame.
func golden() map[string][]wire.Frame {
	files := connectorFrames()
	for name, frames := range gatewayFrames() {
		files[name] = frames
	}
	return files
}

// travelled is what arrives of f: the same without the fields that stay behind.
func travelled(f wire.Frame) wire.Frame {
	switch f := f.(type) {
	case wire.Inbound:
		f.Event.ID, f.Event.Bot, f.Event.At, f.Event.Traits = "", relay.Bot{}, time.Time{}, relay.Traits{}
		return f
	default:
		return f
	}
}

func TestGolden(t *testing.T) {
	files := golden()
	for name, frames := range files {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(goldenDir, name)
			got := encodeAll(t, frames)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("frames (-golden +encoded):\n%s", diff)
			}
		})
	}
	onDisk, err := filepath.Glob(filepath.Join(goldenDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range onDisk {
		if _, ok := files[filepath.Base(path)]; !ok {
			t.Errorf("%s: no frame type writes this file", filepath.Base(path))
		}
	}
}

// Invariant 4, for every golden frame; the fuzz targets hold it for the rest.
func TestGoldenFramesDecode(t *testing.T) {
	for name, frames := range golden() {
		t.Run(name, func(t *testing.T) {
			for i, line := range readLines(t, name) {
				got, err := decoderOf(name)(line)
				if err != nil {
					t.Errorf("line %d: %v", i+1, err)
					continue
				}
				if diff := cmp.Diff(travelled(frames[i]), got); diff != "" {
					t.Errorf("line %d (-want +got):\n%s", i+1, diff)
				}
			}
		})
	}
}

func decoderOf(file string) func([]byte) (wire.Frame, error) {
	if strings.HasPrefix(file, "gateway.") {
		return wire.DecodeFromGateway
	}
	return wire.DecodeFromConnector
}

func encodeAll(t testing.TB, frames []wire.Frame) []byte {
	t.Helper()
	var all []byte
	for _, f := range frames {
		line, err := wire.Encode(f)
		if err != nil {
			t.Fatalf("Encode(%+v): %v", f, err)
		}
		all = append(all, line...)
	}
	return all
}

// readLines returns the frames of a golden file, each with its newline.
func readLines(t testing.TB, name string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(goldenDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.SplitAfter(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
}
