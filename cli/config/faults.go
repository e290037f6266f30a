package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// environment stands for the file's name where the environment is meant.
const environment = "environment"

// Place is the position of a setting in the file, or its variable.
type Place struct {
	File string `json:"file"`           // as the operator named it, or "environment"
	Line int    `json:"line,omitempty"` // from 1; 0: about no line
	Path string `json:"path,omitempty"` // section.key, or the environment variable's name
}

// Fault is one thing wrong with the configuration.
type Fault struct {
	Place
	What string `json:"what"` // what is wrong and what to do about it, in one line, without the value

	Denied bool `json:"-"` // this user may not read the file; for the server's user there may be no fault
	Starts bool `json:"-"` // the server starts with it
}

// String returns "file:line: path: what".
func (f Fault) String() string {
	s := f.File
	if f.Line > 0 {
		s += ":" + strconv.Itoa(f.Line)
	}
	if f.Path != "" {
		s += ": " + f.Path
	}
	return s + ": " + f.What
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

func (f *Faults) add(at Place, format string, args ...any) {
	*f = append(*f, Fault{Place: at, What: fmt.Sprintf(format, args...)})
}

// note adds err as a fault, unless err is nil.
func (f *Faults) note(at Place, err error) {
	if err != nil {
		*f = append(*f, Fault{Place: at, What: err.Error(), Denied: errors.Is(err, fs.ErrPermission)})
	}
}

func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	var files []string // in the order in which they were read, the environment last
	for _, one := range f {
		if one.File != environment && !slices.Contains(files, one.File) {
			files = append(files, one.File)
		}
	}
	files = append(files, environment)
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(slices.Index(files, a.File), slices.Index(files, b.File)), cmp.Compare(a.Line, b.Line))
	})
	return f
}

// nearest returns the candidate that s was probably meant to be, or empty. A candidate also counts if s is a
// misspelt beginning of it, so "tokn" finds "token_file". In a short word one letter may be wrong, in others two.
func nearest(s string, candidates []string) string {
	best, dist := "", 3
	if len(s) < 4 {
		dist = 2
	}
	for _, c := range candidates {
		if d := distance(s, c); d < dist && d < len(s) {
			best, dist = c, d
		}
	}
	return best
}

// hint returns " (did you mean X?)" for the nearest candidate, or empty.
func hint(s string, candidates []string) string {
	if n := nearest(s, candidates); n != "" {
		return " (did you mean " + n + "?)"
	}
	return ""
}

// distance returns how many single-byte edits turn s into c, or turn it into a beginning of c, which costs one more.
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

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// spell renders a key as the operator wrote it, shortened, and quoted where it is no bare key.
func spell(key string) string {
	short := key
	if len(key) > 40 {
		short = key[:40] + "…"
	}
	if bareKey.MatchString(key) {
		return short
	}
	return strconv.QuoteToASCII(short)
}
