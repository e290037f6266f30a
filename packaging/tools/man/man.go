// Command man writes documentation of the commands: FOLDER/man has a man page of each command, FOLDER/completions a
// script for each shell. The date of a page is $SOURCE_DATE_EPOCH, so that two runs give the same bytes.
//
// usage: man FOLDER VERSION
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/hermes-connector/hermes-connector/cli"
)

func main() {
	if err := run(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func run(args []string, epoch string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: man FOLDER VERSION")
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	if err := pages(filepath.Join(args[0], "man"), args[1], time.Unix(seconds, 0).UTC()); err != nil {
		return err
	}
	return completions(filepath.Join(args[0], "completions"))
}

// pages writes the man pages.
func pages(folder, version string, date time.Time) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root := cli.Command()
	root.DisableAutoGenTag = true
	prepare(root)
	return doc.GenManTree(root, &doc.GenManHeader{
		Section: "1", Date: &date, Source: "hermes-connector " + version, Manual: "hermes-connector",
	}, folder)
}

// completions writes the scripts, each under its shell's name.
func completions(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root := cli.Command()
	for shell, write := range map[string]func(path string) error{
		"bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
		"zsh":  root.GenZshCompletionFile,
	} {
		if err := write(filepath.Join(folder, shell)); err != nil {
			return err
		}
	}
	return nil
}

// prepare turns the descriptions of c and its subcommands into markdown, because cobra reads them as markdown.
func prepare(c *cobra.Command) {
	c.Short, c.Long = markdown(c.Short), markdown(c.Long)
	for _, sub := range c.Commands() {
		prepare(sub)
	}
}

// markdown turns a description into markdown that shows the same text: indented lines become code blocks, which blank
// lines separate from the rest, and in other lines the characters that mean something in markdown are escaped.
func markdown(s string) string {
	var b strings.Builder
	code := false
	for line := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		switch indented := strings.HasPrefix(line, " "); {
		case indented != code && indented:
			b.WriteString("\n    " + line + "\n")
		case indented:
			b.WriteString("    " + line + "\n")
		case code:
			b.WriteString("\n" + plain(line) + "\n")
		default:
			b.WriteString(plain(line) + "\n")
		}
		code = strings.HasPrefix(line, " ")
	}
	return strings.TrimRight(b.String(), "\n")
}

// plain returns a line without characters that markdown would interpret.
func plain(line string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "`", "\\`").Replace(line)
}
