package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestProgramsOfTheCurrentFolderAreNotRun: an empty element of PATH means the current folder, where anybody's program may lie.
func TestProgramsOfTheCurrentFolderAreNotRun(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("systemctl", []byte("#!/bin/sh\n: >ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", ":/nowhere", "/nowhere:", ".", "../" + filepath.Base(dir)} {
		t.Setenv("PATH", path)
		a := &app{where: where{env: os.Environ()}, console: console{stderr: io.Discard}}
		if err := a.command(t.Context(), "systemctl"); err == nil {
			t.Errorf("PATH=%q: no error", path)
		}
		if _, err := os.Stat("ran"); err == nil {
			t.Fatalf("PATH=%q: it was run", path)
		}
	}
	t.Setenv("PATH", dir)
	if err := (&app{where: where{env: os.Environ()}, console: console{stderr: io.Discard}}).command(t.Context(), "systemctl"); err != nil {
		t.Errorf("by its whole path: %v", err)
	}
	if _, err := os.Stat("ran"); err != nil {
		t.Error("by its whole path it was not run")
	}
}

func TestAProgramEndsWithItsContext(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := (&app{where: where{env: os.Environ()}, console: console{stderr: io.Discard}}).command(ctx, "sleep", "60")
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Exited() {
		t.Errorf("%v, want the end by a signal", err)
	}
}
