package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/cli/config"
)

// document is a connector.toml while it is changed: line by line, so that every comment stays where it is.
type document struct{ lines []string }

func newDocument(data []byte) *document {
	text := strings.TrimRight(string(data), "\n")
	if text == "" {
		return &document{}
	}
	return &document{strings.Split(text, "\n")}
}

// bytes is the document as a file, which ends with its last line.
func (d *document) bytes() []byte {
	if len(d.lines) == 0 {
		return []byte{}
	}
	return []byte(strings.Join(d.lines, "\n") + "\n")
}

// setting is a key and its value as TOML spells it. An empty section is the top of the file.
type setting struct{ section, key, value string }

func (s setting) line() string { return s.key + " = " + s.value }

func (s setting) path() string {
	if s.section == "" {
		return s.key
	}
	return s.section + "." + s.key
}

// set gives a key its value: where it stands, or else at the end of its section. The error says what to change by hand.
func (d *document) set(s setting) error {
	all := config.Outline(d.bytes())
	path, firstHeader := s.path(), len(d.lines)+1
	lastAbove, header := 0, 0 // lines: of the last key above all sections, of the section's header
	for _, l := range all {
		switch {
		case l.Header:
			firstHeader = min(firstHeader, l.Line)
			if l.Path == s.section {
				header = l.Line
			}
		case l.Path == path:
			return d.replace(l.Line, s)
		}
	}
	for _, l := range all {
		if !l.Header && l.Line < firstHeader {
			lastAbove = max(lastAbove, l.Line)
		}
	}
	switch {
	case s.section != "" && header == 0:
		d.add("["+s.section+"]", s.line())
	case s.section != "":
		d.lines = slices.Insert(d.lines, header, s.line())
	case lastAbove > 0:
		if _, _, whole := value(d.lines[lastAbove-1]); !whole {
			return fmt.Errorf("line %d goes on in the next one: write %s above it by hand, then start setup again", lastAbove, s.line())
		}
		d.lines = slices.Insert(d.lines, lastAbove, s.line())
	default:
		d.above(firstHeader-1, s.line())
	}
	return nil
}

// drop takes out the lines of keys that changes do not set. A value of several lines stays, and so does a table's header.
func (d *document) drop(changes []setting, paths ...string) {
	for _, l := range slices.Backward(config.Outline(d.bytes())) {
		set := slices.ContainsFunc(changes, func(c setting) bool { return l.Path == c.path() })
		if _, _, whole := value(d.lines[l.Line-1]); whole && !l.Header && !set && slices.Contains(paths, l.Path) {
			d.lines = slices.Delete(d.lines, l.Line-1, l.Line)
		}
	}
}

// above puts a line above the header at index at, and above the comment that belongs to that.
func (d *document) above(at int, line string) {
	for at > 0 && at <= len(d.lines) && strings.HasPrefix(strings.TrimSpace(d.lines[at-1]), "#") {
		at--
	}
	if at == 0 && len(d.lines) > 0 && strings.HasPrefix(d.lines[0], "#") { // what the file is about stays on top
		for at < len(d.lines) && strings.HasPrefix(d.lines[at], "#") {
			at++
		}
	}
	added := []string{line}
	if at > 0 && strings.HasPrefix(d.lines[at-1], "#") {
		added = []string{"", line}
	}
	if at < len(d.lines) && d.lines[at] != "" {
		added = append(added, "")
	}
	d.lines = slices.Insert(d.lines, at, added...)
}

// add puts lines at the end, a blank line before them.
func (d *document) add(lines ...string) {
	if len(d.lines) > 0 {
		d.lines = append(d.lines, "")
	}
	d.lines = append(d.lines, lines...)
}

// addBot adds a table of a bot. The error says what to do by hand.
func (d *document) addBot(keys ...setting) error {
	for _, l := range config.Outline(d.bytes()) {
		if l.Header && l.Path == "bots" && !strings.HasPrefix(strings.TrimSpace(d.lines[l.Line-1]), "[[") {
			return fmt.Errorf("line %d writes the bots as a list: make it [[bots]] tables by hand, then start setup again", l.Line)
		}
	}
	lines := []string{"[[bots]]"}
	for _, k := range keys {
		lines = append(lines, k.line())
	}
	d.add(lines...)
	return nil
}

// replace changes the value on a line, from 1, and keeps what stands behind it.
func (d *document) replace(line int, s setting) error {
	from, to, whole := value(d.lines[line-1])
	if key := strings.TrimSpace(d.lines[line-1][:max(0, strings.Index(d.lines[line-1], "="))]); !whole || strings.Trim(key, `"'`) != s.key {
		return fmt.Errorf("line %d cannot be changed safely: write %s there by hand, then start setup again", line, s.line())
	}
	d.lines[line-1] = d.lines[line-1][:from] + s.value + d.lines[line-1][to:]
	return nil
}

// value is where a line's value stands; whole: it ends on the line.
func value(line string) (from, to int, whole bool) {
	from = strings.Index(line, "=") + 1
	for from > 0 && from < len(line) && (line[from] == ' ' || line[from] == '\t') {
		from++
	}
	depth, quote := 0, byte(0)
	to = from
	for i := from; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
			to = i + 1
		case c == '"' || c == '\'':
			if strings.HasPrefix(line[i:], strings.Repeat(string(c), 3)) {
				return 0, 0, false
			}
			quote, to = c, i+1
		case c == '#':
			return from, to, depth == 0 && to > from
		case c == '[' || c == '{':
			depth++
			to = i + 1
		case c == ']' || c == '}':
			depth--
			to = i + 1
		case c != ' ' && c != '\t' && c != '\r':
			to = i + 1
		}
	}
	return from, to, from > 0 && quote == 0 && depth == 0 && to > from
}

// text is s as a TOML string.
func text(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			_, _ = fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// around is how many lines that stay are shown around those that change.
const around = 2

// difference shows what changes from one text to another, a line each: "- " goes, "+ " comes, "  " stays.
func difference(from, to []string) (out []string) {
	common := make([][]int, len(from)+1) // [i][j]: the longest common part of from[i:] and to[j:]
	for i := range common {
		common[i] = make([]int, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if from[i] == to[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var all []string
	i, j := 0, 0
	for i < len(from) || j < len(to) {
		switch {
		case i < len(from) && j < len(to) && from[i] == to[j]:
			all = append(all, "  "+from[i])
			i, j = i+1, j+1
		case i < len(from) && (j == len(to) || common[i+1][j] >= common[i][j+1]):
			all = append(all, "- "+from[i])
			i++
		default:
			all = append(all, "+ "+to[j])
			j++
		}
	}
	skipped := false
	for n, line := range all {
		near := slices.ContainsFunc(all[max(0, n-around):min(len(all), n+around+1)], func(l string) bool { return l[0] != ' ' })
		if near {
			out = append(out, line)
		} else if !skipped {
			out = append(out, "  …")
		}
		skipped = !near
	}
	return out
}
