// Command man writes the man pages of hermes-connector into a folder, one for each command, as the tree of commands
// describes itself. The date of a page is $SOURCE_DATE_EPOCH, so that two runs give the same bytes.
//
// usage: man FOLDER VERSION
package main

import (
	"fmt"
	"os"
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
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	date := time.Unix(seconds, 0).UTC()
	root := cli.Command()
	root.DisableAutoGenTag = true
	prepare(root)
	return doc.GenManTree(root, &doc.GenManHeader{
		Section: "1", Date: &date, Source: "hermes-connector " + args[1], Manual: "hermes-connector",
	}, args[0])
}

// prepare makes markdown of the descriptions of c and all below it, which cobra takes for that.
func prepare(c *cobra.Command) {
	c.Short, c.Long = markdown(c.Short), markdown(c.Long)
	for _, sub := range c.Commands() {
		prepare(sub)
	}
}

// markdown keeps the lines of a description as they are: indented ones become code, and the others end where they end.
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

// plain is a line without what markdown would take for marks.
func plain(line string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "`", "\\`").Replace(line)
}
