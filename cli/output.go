package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-connector/hermes-connector/cli/terminal"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

// console is what a run reads from and writes to.
type console struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	hintsFor       string // the shard that commands in hints name, if there are several
}

// jsonFlag adds --json to c.
func jsonFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("json", false, "print JSON, for scripts")
}

// print writes v to stdout: as JSON, or as human writes it. It returns the first error of stdout even if human ignores
// it, so that a secret that was not printed does not look printed.
func (c *console) print(asJSON bool, v any, human func(w io.Writer)) error {
	if !asJSON {
		out := &observed{to: c.stdout, shard: c.hintsFor}
		human(out)
		return out.err
	}
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(c.stdout, terminal.JSON(buf.String()))
	return err
}

// observed is a writer that remembers its first error, and writes nothing after it.
type observed struct {
	to    io.Writer
	shard string
	err   error
}

func (o *observed) Write(b []byte) (n int, err error) {
	if o.err == nil {
		_, o.err = io.WriteString(o.to, relay.InShard(string(b), o.shard))
	}
	if o.err != nil {
		return 0, o.err
	}
	return len(b), nil
}

// say writes a line to stderr.
func (c *console) say(format string, args ...any) {
	_, _ = fmt.Fprintln(c.stderr, relay.InShard(terminal.Sprintf(format, args...), c.hintsFor))
}

// table writes aligned rows; the first is the heading.
func table(w io.Writer, rows [][]any) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		cells := make([]string, len(r))
		for n, v := range r {
			if at, ok := v.(time.Time); ok {
				v = at.Local().Format(time.DateTime)
			}
			cells[n] = cmp.Or(terminal.Plain(fmt.Sprint(v)), "-")
		}
		_, _ = fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush()
}

// list writes a table of all, or says that there is nothing.
func list[T any](a *app, w io.Writer, all []T, none string, head []any, row func(T) []any) {
	if len(all) == 0 {
		a.say("%s", none)
		return
	}
	rows := [][]any{head}
	for _, one := range all {
		rows = append(rows, row(one))
	}
	table(w, narrow(rows))
}

// narrow removes columns that tell a household nothing: TENANT if all rows have the default tenant, INSTANCE if every
// instance has its gateway's name, and NAME if no row has a name. An empty cell counts as the usual value.
func narrow(rows [][]any) [][]any {
	gateway := slices.Index(rows[0], any("GATEWAY"))
	usual := map[any]func(row []any) string{ // by heading: the value that tells nothing
		"TENANT":   func([]any) string { return string(relay.DefaultTenant) },
		"NAME":     func([]any) string { return "" },
		"INSTANCE": func(row []any) string { return fmt.Sprint(row[gateway]) },
	}
	for column, heading := range slices.Backward(rows[0]) {
		usualOf := usual[heading]
		if usualOf == nil {
			continue
		}
		tells := slices.ContainsFunc(rows[1:], func(row []any) bool {
			value := fmt.Sprint(row[column])
			return value != "" && value != usualOf(row)
		})
		if tells {
			continue
		}
		for n := range rows {
			rows[n] = slices.Concat(rows[n][:column], rows[n][column+1:])
		}
	}
	return rows
}

// ago renders a time as the distance from now; "-" for the zero time.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := max(now.Sub(t), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}

// in renders the time until something happens, rounded up.
func in(d time.Duration) string {
	up := func(unit time.Duration) int { return int((d + unit - 1) / unit) }
	switch {
	case d <= time.Minute:
		return fmt.Sprintf("%d s", up(time.Second))
	case d <= 2*time.Hour:
		return fmt.Sprintf("%d min", up(time.Minute))
	default:
		return fmt.Sprintf("%d h", up(time.Hour))
	}
}

// join returns all ids in one cell or line.
func join[S ~string](all []S) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = string(s)
	}
	return strings.Join(texts, ", ")
}

// warn writes warnings, a line each.
func warn(w io.Writer, warnings []string) {
	for _, warning := range warnings {
		_, _ = fmt.Fprintln(w, "!", terminal.Plain(finding.Local(warning)))
	}
}

// confirmed asks a question on stderr, unless yes is true. Any answer on stdin except yes means no, and then the error
// says that nothing was done; done is the participle for that text, such as "deleted".
func (c *console) confirmed(yes bool, question, done string) error {
	if yes {
		return nil
	}
	_, _ = fmt.Fprint(c.stderr, question+" [y/N] ")
	line, _ := bufio.NewReader(c.stdin).ReadString('\n') // no answer is a no
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("nothing was " + done + ": answer y, or use --yes")
	}
	return nil
}

// below returns the text to print before .env lines: a newline if stdout is a file that is not empty, since its last
// line may lack a newline; otherwise nothing.
func (c *console) below() string {
	if f, ok := c.stdout.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && st.Size() > 0 {
			return "\n"
		}
	}
	return ""
}

// warnings returns a log on stderr for the user of a command, which shows warnings and errors only.
func (c *console) warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
