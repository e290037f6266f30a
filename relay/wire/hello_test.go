package wire_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay/wire"
)

func helloWith(commands ...string) []byte {
	return []byte(`{"type":"hello","platform":"discord","botId":"1","command_manifest":[` + strings.Join(commands, ",") + `]}`)
}

func commandOf(name string, bytes int) string {
	c := fmt.Sprintf(`{"name":%q,"description":""}`, name)
	return c[:len(c)-2] + strings.Repeat("d", bytes-len(c)) + `"}`
}

// TestManifestsAreBounded: a full one of a healthy gateway is read whole; of one that is made to take
// memory, what fits.
func TestManifestsAreBounded(t *testing.T) {
	many := func(n, bytes int) (list []string) {
		for i := range n {
			list = append(list, commandOf(fmt.Sprint("c", i), bytes))
		}
		return list
	}
	for name, tc := range map[string]struct {
		commands []string
		want     int
	}{
		"all that Discord takes":              {many(100, 2500), 100},
		"one as large as Discord's largest":   {many(1, 6*8000), 1},
		"one larger than any, among others":   {append(many(3, 200), commandOf("huge", 100<<10), commandOf("z", 200)), 4},
		"more than Discord takes":             {many(5000, 100), 128},
		"more bytes than a gateway can mean":  {many(100, 10_000), 26},
		"a small one behind those too many":   {append(many(26, 10_000), commandOf("big", 10_000), commandOf("z", 100)), 27},
		"what is no object is not counted in": {append(strings.Split(strings.Repeat("1,", 1000)+"1", ","), commandOf("z", 100)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := wire.DecodeFromGateway(helloWith(tc.commands...))
			if err != nil {
				t.Fatal(err)
			}
			got := f.(wire.Hello).Manifest
			if len(got) != tc.want {
				t.Errorf("%d commands, want %d", len(got), tc.want)
			}
		})
	}
}

// TestRepairsAreBounded: what is not UTF-8 becomes three times as large.
func TestRepairsAreBounded(t *testing.T) {
	line := func(pairs int) []byte {
		return []byte(`{"type":"going_idle","x":"` + strings.Repeat("\xffa", pairs) + `"}`)
	}
	if _, err := wire.DecodeFromGateway(line(wire.MaxFrame/4 - 10)); err != nil {
		t.Errorf("a line that fits when it is repaired: %v", err)
	}
	var before, after runtime.MemStats
	large := line(wire.MaxFrame/2 - 100)
	runtime.ReadMemStats(&before)
	_, err := wire.DecodeFromGateway(large)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, wire.ErrNotJSON) {
		t.Errorf("a line that does not: %v, want %v", err, wire.ErrNotJSON)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
		t.Errorf("to refuse it took %d bytes", n)
	}
}

// TestLargeFramesAreNotCopied: what a gateway makes large is looked at where it stands.
func TestLargeFramesAreNotCopied(t *testing.T) {
	big := strings.Repeat("x", wire.MaxFrame-1000)
	for name, tc := range map[string]struct {
		line []byte
		most uint64 // bytes
	}{
		"a hello with a command of a MiB":   {helloWith(commandOf("huge", len(big))), 64 << 10},
		"a key nobody knows":                {[]byte(`{"type":"going_idle","x":"` + big + `"}`), 64 << 10},
		"an action's field that is unknown": {[]byte(`{"type":"outbound","requestId":"1","action":{"op":"typing","chat_id":"1","x":"` + big + `"}}`), 64 << 10},
		"a send, whose text is":             {[]byte(`{"type":"outbound","requestId":"1","action":{"op":"send","chat_id":"1","content":"` + big + `"}}`), 5 << 18},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := wire.DecodeFromGateway(tc.line)
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > tc.most {
				t.Errorf("decoding took %d bytes, want at most %d", n, tc.most)
			}
		})
	}
}
