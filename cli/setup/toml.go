package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/cli/config"
)

// setting is a key and its value as TOML spells it. An empty section is the top of the file.
type setting struct{ section, key, value string }

func (s setting) line() string { return s.key + " = " + s.value }

func (s setting) path() string {
	if s.section == "" {
		return s.key
	}
	return s.section + "." + s.key
}

// lineOf returns the line on which a file sets a key, from 1; 0: the file does not set it.
func lineOf(file []byte, path string) int {
	for _, l := range config.Outline(file) {
		if l.Path == path && !l.Header {
			return l.Line
		}
	}
	return 0
}

// lacking returns those lines that a file lacks, and the keys of gone that it still has.
func lacking(file []byte, lines []setting, gone []string) (lack []setting, still []string) {
	all := config.Outline(file)
	for _, s := range lines {
		want := config.Outline([]byte(s.line()))
		if !slices.ContainsFunc(all, func(l config.Line) bool {
			return l.Path == s.path() && !l.Header && len(want) == 1 && l.Text == want[0].Text
		}) {
			lack = append(lack, s)
		}
	}
	for _, path := range gone {
		set := slices.ContainsFunc(lines, func(s setting) bool { return s.path() == path })
		if !set && lineOf(file, path) > 0 {
			still = append(still, path)
		}
	}
	return lack, still
}

// sectioned reports whether a file has a section or a bot, so that lines at its end would not belong to its top.
func sectioned(file []byte) bool {
	return slices.ContainsFunc(config.Outline(file), func(l config.Line) bool { return l.Header || strings.Contains(l.Path, ".") })
}

// extendable reports whether lines can be added at the end of a file, and nothing else need change.
func extendable(file []byte, lines []setting, gone []string) bool {
	return !sectioned(file) && len(gone) == 0 && !slices.ContainsFunc(lines, func(s setting) bool { return lineOf(file, s.path()) > 0 })
}

// blocks returns lines by their sections, the top of the file first, and a bot's table.
func blocks(lines, bot []setting) (all [][]string) {
	var names []string
	for _, s := range lines {
		if !slices.Contains(names, s.section) {
			names = append(names, s.section)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return min(len(a), 1) - min(len(b), 1) })
	for _, name := range names {
		var block []string
		if name != "" {
			block = append(block, "["+name+"]")
		}
		for _, s := range lines {
			if s.section == name {
				block = append(block, s.line())
			}
		}
		all = append(all, block)
	}
	if len(bot) > 0 {
		block := []string{"[[bots]]"}
		for _, s := range bot {
			block = append(block, s.line())
		}
		all = append(all, block)
	}
	return all
}

// extended returns an extendable file with the lines and the bot's table at its end.
func extended(file []byte, lines, bot []setting) []byte {
	out := string(file)
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	for _, block := range blocks(lines, bot) {
		if out != "" {
			out += "\n"
		}
		out += strings.Join(block, "\n") + "\n"
	}
	return []byte(out)
}

// byHand returns instructions for a person: what to change in a file that setup does not edit.
func byHand(file []byte, lines []setting, gone []string, bot []setting) string {
	var b strings.Builder
	step := func(where string, block ...string) {
		_, _ = fmt.Fprintf(&b, "\n%s\n\n  %s\n", where, strings.Join(block, "\n  "))
	}
	headers := make(map[string]bool)
	for _, l := range config.Outline(file) {
		headers[l.Path] = headers[l.Path] || l.Header
	}
	var absent []setting
	for _, s := range lines {
		if n := lineOf(file, s.path()); n > 0 {
			step(fmt.Sprintf("In place of line %d:", n), s.line())
		} else {
			absent = append(absent, s)
		}
	}
	for _, block := range blocks(absent, bot) {
		name := strings.Trim(block[0], "[]")
		switch section := strings.HasPrefix(block[0], "["); {
		case section && name != "bots" && headers[name]:
			step("Below "+block[0]+":", block[1:]...)
		case section:
			step("At its end:", block...)
		case sectioned(file):
			step("At its top, above the first [section]:", block...)
		default:
			step("At its end:", block...)
		}
	}
	for _, path := range gone {
		_, _ = fmt.Fprintf(&b, "\nRemove line %d, %s.\n", lineOf(file, path), path)
	}
	return strings.TrimLeft(b.String(), "\n")
}

// text returns s as a TOML string.
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
