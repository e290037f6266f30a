package cli

import (
	"os"
	"regexp"
	"testing"
)

// TestRelease: the CHANGELOG tells what is in this version, and packaging/release can read which it is.
func TestRelease(t *testing.T) {
	source, err := os.ReadFile("version.go")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^const release = "(.*)"$`).FindSubmatch(source); m == nil || string(m[1]) != release {
		t.Errorf("packaging/release finds %q, want %s", m, release)
	}
	changes, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(release) + `( |$)`).Match(changes) {
		t.Errorf("the CHANGELOG has nothing about %s", release)
	}
}
