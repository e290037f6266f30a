package config

import (
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Line is the position of a key, or of the header of a section, in a file.
type Line struct {
	Path   string // section.key, or the section
	Header bool
	Line   int    // from 1
	Text   string // the value, as a variable would spell it
}

// Outline returns the position of every key and header of a file. The tables of [[bots]] and [[shard]] come last, each
// header before its keys. nil: the file has a fault.
func Outline(data []byte) (all []Line) {
	var faults Faults
	p := parser{faults: &faults, seen: make(map[string]Place)}
	if !p.parse(data) {
		return nil
	}
	add := func(it item) {
		header := it.kind == unstable.Table || it.kind == unstable.ArrayTable
		all = append(all, Line{strings.Join(it.path, "."), header, it.at.Line, it.text})
	}
	for _, it := range p.items {
		add(it)
	}
	for _, t := range p.tables {
		all = append(all, Line{t.name, true, t.at.Line, ""})
		for _, it := range t.items {
			add(it)
		}
	}
	return all
}
