package handler

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkRun is what a run of `true` costs in the cage and without one, in turns: at best, and half of the time.
func BenchmarkRun(b *testing.B) {
	forms := []string{"caged", "uncaged"}
	handlers := make([]*Handler, len(forms))
	for i, form := range forms {
		handlers[i] = &Handler{Name: form, Run: []string{"/usr/bin/true"}, Timeout: maxTimeout, Uncaged: form == "uncaged"}
	}
	e := Engine{Config: &Config{Handlers: handlers}, Log: slog.New(slog.DiscardHandler)}
	var err error
	if e.Tools, err = FindTools(b.Context(), e.Config); err != nil {
		b.Skip(err)
	}
	dir := filepath.Join(b.TempDir(), "thread")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	took := make([][]time.Duration, len(forms))
	for b.Loop() {
		for i, h := range handlers {
			began := time.Now()
			if r := e.Tools.run(b.Context(), h, "thread", dir, nil); r.cause != "" {
				b.Fatal(r.cause, r.said)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	for i, form := range forms {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][0])/1e6, form+"-min-ms")
		b.ReportMetric(float64(took[i][len(took[i])/2])/1e6, form+"-median-ms")
	}
}
