package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli"
)

func all(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := make(map[string]string)
	for _, sub := range []string{"man", "completions"} {
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(dir, sub, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			got[sub+"/"+e.Name()] = string(b)
		}
	}
	return got
}

// TestPages: every command that can be run has a page, and two runs give the same bytes.
func TestPages(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		if err := run([]string{dir, "1.2.3"}, "86400"); err != nil {
			t.Fatal(err)
		}
	}
	got, again := all(t, one), all(t, two)
	for name, text := range got {
		if again[name] != text {
			t.Errorf("%s differs between two runs", name)
		}
		if len(text) < 200 {
			t.Errorf("%s has %d bytes", name, len(text))
		}
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		name := "man/" + strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		if c.IsAvailableCommand() && !strings.Contains(got[name], "hermes-connector 1.2.3") {
			t.Errorf("no page %s that names the version", name)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(cli.Command())
	for shell, want := range map[string]string{"bash": "complete", "zsh": "#compdef hermes-connector", "fish": "complete -c hermes-connector"} {
		if !strings.Contains(got["completions/"+shell], want) {
			t.Errorf("the completions of %s lack %q", shell, want)
		}
	}
}

// TestMarkdown: a table in a description stays a table, and marks are no marks.
func TestMarkdown(t *testing.T) {
	in := "One *line*\nof a_b [two].\n\n  key  what\n    more\n\nAfter <it>."
	want := "One \\*line\\*\nof a\\_b \\[two].\n\n\n      key  what\n        more\n\n\nAfter \\<it>."
	if got := markdown(in); got != want {
		t.Errorf("markdown =\n%q, want\n%q", got, want)
	}
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		args  []string
		epoch string
	}{{nil, "1"}, {[]string{dir}, "1"}, {[]string{dir, "1.2.3"}, ""}, {[]string{dir, "1.2.3"}, "today"}} {
		if run(tc.args, tc.epoch) == nil {
			t.Errorf("run(%q, %q) is content", tc.args, tc.epoch)
		}
	}
}
