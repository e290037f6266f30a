package handler

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// TestThreadIDs are stable, differ between handlers, conversations and runners, and have the form of a UUID.
func TestThreadIDs(t *testing.T) {
	dir := t.TempDir()
	one, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenState(dir)
	if err != nil {
		t.Fatal(err)
	}
	other, err := OpenState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, b := &Handler{Name: "a"}, &Handler{Name: "b"}
	seen := make(map[string]bool)
	for _, id := range []string{one.threadID(a, "x"), one.threadID(b, "x"), one.threadID(a, "y"), other.threadID(a, "x"), one.threadID(&Handler{Name: "a.x"}, ""), one.threadID(a, "")} {
		if seen[id] || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) {
			t.Errorf("%q is there twice, or no UUID", id)
		}
		seen[id] = true
	}
	if one.threadID(a, "x") != again.threadID(a, "x") {
		t.Error("a restart changes it")
	}
}

// TestKeyOfAnotherLength: a damaged key is named, not replaced: every thread would begin anew.
func TestKeyOfAnotherLength(t *testing.T) {
	dir := folder(t, map[string]string{"key": "short"})
	if _, err := OpenState(dir); err == nil {
		t.Error("it opens")
	}
}

// TestSweep: idle folders go, also those in which a program has locked folders or put links; others stay.
func TestSweep(t *testing.T) {
	s, err := OpenState(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	outside := folder(t, map[string]string{"precious": "x"})
	now := time.Now()
	for name, idle := range map[string]time.Duration{"fresh": 0, "near": idleAfter - time.Hour, "idle": idleAfter + time.Hour} {
		dir, err := s.folder(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{
			os.MkdirAll(filepath.Join(dir, "locked", "in"), 0o700), os.WriteFile(filepath.Join(dir, "locked", "in", "f"), nil, 0o400),
			os.Symlink(outside, filepath.Join(dir, "link")), os.Chmod(filepath.Join(dir, "locked", "in"), 0), os.Chmod(filepath.Join(dir, "locked"), 0),
			os.Chtimes(dir, now.Add(-idle), now.Add(-idle)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.sweep(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"fresh": true, "near": true, "idle": false} {
		if _, err := os.Lstat(filepath.Join(s.dir, "threads", name)); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", name, err == nil, want)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Errorf("what a link led to: %v", err)
	}
	if err := s.Discard(); err != nil {
		t.Error(err)
	}
}
