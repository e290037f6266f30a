package handler

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkRun is what a run of `true` costs in the cage, and without one.
func BenchmarkRun(b *testing.B) {
	for name, uncaged := range map[string]bool{"caged": false, "uncaged": true} {
		b.Run(name, func(b *testing.B) {
			h := &Handler{Name: "true", Run: []string{"/usr/bin/true"}, Timeout: maxTimeout, Uncaged: uncaged}
			e := Engine{Config: &Config{Handlers: []*Handler{h}}, Log: slog.New(slog.DiscardHandler)}
			var err error
			if e.Tools, err = FindTools(b.Context(), e.Config); err != nil {
				b.Skip(err)
			}
			dir := filepath.Join(b.TempDir(), "thread")
			if err := os.Mkdir(dir, 0o700); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if r := e.Tools.run(b.Context(), h, "thread", dir, nil); r.cause != "" {
					b.Fatal(r.cause, r.said)
				}
			}
		})
	}
}
