package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault is one thing wrong with the configuration.
type Fault struct {
	File string `json:"file"`           // as the operator named it, or "environment"
	Line int    `json:"line,omitempty"` // from 1; 0 when the fault is about no line
	Path string `json:"path,omitempty"` // section.key, or the environment variable's name
	What string `json:"what"`           // what is wrong and what to do, in one line, without the value
}

// String is "file:line: path: what".
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		b.WriteString(":" + strconv.Itoa(f.Line))
	}
	b.WriteString(": ")
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.What)
	return b.String()
}

// Faults is everything wrong with a configuration, in the order of the file, the environment last.
type Faults []Fault

// Error lists all faults, one a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// place is where a setting came from: a line of the file, or a variable.
type place struct {
	line int    // 0: not from the file
	env  string // the variable's name; empty: from the file
	path string
}

// judge collects faults.
type judge struct {
	file   string
	faults Faults
}

func (j *judge) add(at place, format string, args ...any) {
	f := Fault{File: j.file, Line: at.line, Path: at.path, What: fmt.Sprintf(format, args...)}
	if at.env != "" {
		f.File, f.Line, f.Path = "environment", 0, at.env
	}
	j.faults = append(j.faults, f)
}

// err is nil, or all faults in a fixed order.
func (j *judge) err() error {
	if len(j.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(j.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(fromEnv(a), fromEnv(b)), cmp.Compare(a.Line, b.Line))
	})
	return j.faults
}

func fromEnv(f Fault) int {
	if f.File == "environment" {
		return 1
	}
	return 0
}

// nearest is the candidate that s was probably meant to be, or empty. A candidate that s is a
// misspelt beginning of counts, so "tokn" finds "token_file".
func nearest(s string, candidates []string) string {
	best, dist := "", max(3, len(s)/3+1)
	for _, c := range candidates {
		if d := distance(s, c); d < dist && d < len(s) {
			best, dist = c, d
		}
	}
	return best
}

// hint is " (did you mean X?)" for the nearest candidate, or empty.
func hint(s string, candidates []string) string {
	if n := nearest(s, candidates); n != "" {
		return " (did you mean " + n + "?)"
	}
	return ""
}

// distance is the number of single-byte edits that turn s into c, or into a beginning of c at
// the price of one.
func distance(s, c string) int {
	row := make([]int, len(c)+1) // row[j]: edits from s[:i] to c[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(s) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(c) {
			cost := diagonal
			if s[i] != c[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(c)], slices.Min(row)+1)
}

// spell renders a key as the operator wrote it, shortened and quoted where it is no bare key.
func spell(key string) string {
	bare := key != "" && strings.IndexFunc(key, func(r rune) bool {
		return !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z')
	}) < 0
	if len(key) > 40 {
		key = key[:40] + "…"
	}
	if bare {
		return key
	}
	return strconv.QuoteToASCII(key)
}
