package metrics

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 250 150 13 14 20 0 8 0 99 4096000 512 18446744073709551615 1 2"
	for name, tc := range map[string]struct {
		raw  string
		want stat
		ok   bool
	}{
		"a plain name":          {"42 (hermes-connector)" + rest, stat{4, 4096000, 512}, true},
		"a name of parentheses": {"42 (a) S (b c)" + rest, stat{4, 4096000, 512}, true},
		"empty":                 {"", stat{}, false},
		"cut off":               {"42 (hermes) S 1 2 3", stat{}, false},
		"no numbers":            {"42 (hermes) S 1 2 3 4 5 6 7 8 9 10 x 150 13 14 20 0 8 0 99 4096000 512", stat{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := parseStat(tc.raw); got != tc.want || ok != tc.ok {
				t.Errorf("parseStat = %+v, %v, want %+v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestMaxFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  string
		want float64
		ok   bool
	}{
		"a number": {"Max processes 1 2 processes\nMax open files            1024                 524288               files\n", 1024, true},
		"no limit": {"Max open files            unlimited            unlimited            files\n", 0, false},
		"absent":   {"Max processes 1 2 processes\n", 0, false},
		"cut off":  {"Max open files", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := maxFiles(tc.raw); got != tc.want || ok != tc.ok {
				t.Errorf("maxFiles = %v, %v, want %v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("there is no /proc here")
	}
	p := make(page)
	process(p, time.Now())
	for _, name := range []string{
		"process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes", "process_open_fds",
		"process_start_time_seconds", "go_info",
	} {
		if g := p[name]; g == nil || len(g.lines) != 1 {
			t.Errorf("%s is missing", name)
		}
	}
	for _, r := range goRuntimes {
		if p[r.family.name] == nil {
			t.Errorf("%s is missing: the runtime does not know %s", r.family.name, r.source)
		}
	}
}
