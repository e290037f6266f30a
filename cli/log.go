package cli

import (
	"bytes"
	"io"
	"log/slog"
	"os"

	"github.com/hermes-connector/hermes-connector/cli/config"
	"github.com/hermes-connector/hermes-connector/cli/terminal"
)

// logger returns the server's log, on stderr. Its level can be changed while it runs.
func (a *app) logger(c config.Log, level *slog.LevelVar) *slog.Logger {
	level.Set(c.Level)
	o := &slog.HandlerOptions{Level: level}
	if c.JSON {
		return slog.New(slog.NewJSONHandler(shownJSON{a.stderr}, o))
	}
	w := a.stderr
	if f, ok := w.(*os.File); ok && terminal.Is(f) && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" {
		w = colours{w}
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// shownJSON escapes, in each line of a JSON log, characters that a terminal would obey and that JSON need not escape.
type shownJSON struct{ to io.Writer }

func (j shownJSON) Write(line []byte) (int, error) {
	if _, err := io.WriteString(j.to, terminal.JSON(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// colours colours the level in each line of a text log. The handler writes one line at a time, and the level comes
// before the message and the attributes, which may have other people's text.
type colours struct{ to io.Writer }

var levelColours = [][2]string{
	{"level=DEBUG ", "\x1b[2mlevel=DEBUG\x1b[0m "}, {"level=INFO ", "\x1b[32mlevel=INFO\x1b[0m "},
	{"level=WARN ", "\x1b[33mlevel=WARN\x1b[0m "}, {"level=ERROR ", "\x1b[31mlevel=ERROR\x1b[0m "},
}

func (c colours) Write(line []byte) (int, error) {
	at := max(0, bytes.Index(line, []byte("level="))) // the first: a message may have one too
	for _, l := range levelColours {
		if after, ok := bytes.CutPrefix(line[at:], []byte(l[0])); ok {
			out := append(append(append([]byte(nil), line[:at]...), l[1]...), after...)
			if _, err := c.to.Write(out); err != nil {
				return 0, err
			}
			return len(line), nil
		}
	}
	return c.to.Write(line)
}
