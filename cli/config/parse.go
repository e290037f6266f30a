package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// item is a key with its value, or the header of a section. An item from a variable has only a place and a text.
type item struct {
	at   Place
	path []string
	kind unstable.Kind // of the value; Table or ArrayTable: a header
	text string        // the value as a variable would spell it
}

// rawTable is one of several tables with one name, such as [[bots]].
type rawTable struct {
	name  string
	at    Place // its header
	items []item
}

// parser reads a file, before anyone asks what its keys mean.
type parser struct {
	file   string
	faults *Faults
	ast    unstable.Parser
	prefix []string         // the header above the next keys
	table  *rawTable        // the table to which the next keys belong; nil: a section
	seen   map[string]Place // where the file has each key or section first

	items  []item // all items except those in tables
	tables []*rawTable
}

// named returns the tables with that name.
func (p *parser) named(name string) (all []*rawTable) {
	for _, t := range p.tables {
		if t.name == name {
			all = append(all, t)
		}
	}
	return all
}

// parse reads a TOML file. It adds faults for syntax errors, and for keys and sections that are given twice; then it
// returns false, and the rest of the file is not known.
func (p *parser) parse(data []byte) bool {
	p.ast.Reset(data)
	for p.ast.NextExpression() {
		n := p.ast.Expression()
		if n.Kind == unstable.KeyValue {
			p.keyValue(p.prefix, n)
			continue
		}
		header := p.item(nil, n)
		p.prefix, p.table = header.path, nil
		switch {
		case n.Kind == unstable.ArrayTable && isTables(header.path):
			p.start(header.path[0], header.at)
			continue
		case n.Kind == unstable.Table:
			p.once("section", header)
		}
		p.items = append(p.items, header)
	}
	err := p.ast.Error()
	if err == nil {
		return true
	}
	at, what := Place{File: p.file}, ""
	if pe, ok := errors.AsType[*unstable.ParserError](err); ok { // Highlight is an excerpt of the file, which may hold a token
		at.Line, what = p.ast.Shape(p.ast.Range(pe.Highlight)).Start.Line, ": "+withoutCodes(pe.Message)
		if strings.HasPrefix(pe.Message, "expected newline but got") || strings.HasPrefix(pe.Message, "expected keyword") || strings.HasSuffix(pe.Message, "at start of value") {
			what += `; a text stands in quotes, such as "127.0.0.1:8787"`
		}
	}
	*p.faults = nil
	p.faults.add(at, "not valid TOML%s", what)
	return false
}

// withoutCodes returns a message of the library's without the numbers of characters that it shows anyway: U+002E '.'.
func withoutCodes(message string) string {
	words := strings.Fields(message)
	for i := len(words) - 2; i >= 0; i-- {
		if strings.HasPrefix(words[i], "U+") && strings.HasPrefix(words[i+1], "'") {
			words = slices.Delete(words, i, i+1)
		}
	}
	return strings.Join(words, " ")
}

// item returns the key or header of n, below prefix, without a value.
func (p *parser) item(prefix []string, n *unstable.Node) item {
	it := item{path: slices.Clip(prefix), kind: n.Kind, at: Place{File: p.file}}
	for key := n.Key(); key.Next(); {
		if it.at.Line == 0 {
			it.at.Line = p.ast.Shape(key.Node().Raw).Start.Line
		}
		it.path = append(it.path, string(key.Node().Data))
	}
	for i, name := range it.path[:min(len(it.path), 6)] {
		if i > 0 {
			it.at.Path += "."
		}
		it.at.Path += spell(name)
	}
	return it
}

// start begins a table, to which the next keys belong.
func (p *parser) start(name string, at Place) {
	p.table = &rawTable{name: name, at: at}
	p.tables = append(p.tables, p.table)
}

// keyValue adds the key and the value of n. An inline table is read like a section, and a list of inline tables like
// several tables of that name.
func (p *parser) keyValue(prefix []string, n *unstable.Node) {
	it, value := p.item(prefix, n), n.Value()
	it.kind = value.Kind
	for n := len(prefix) + 1; n < len(it.path); n++ { // a dotted key makes tables, which no header may make again
		if id := p.id("section", it.path[:n]); p.seen[id] == (Place{}) {
			p.seen[id] = it.at
		}
	}
	switch {
	case value.Kind == unstable.InlineTable && !isTables(it.path):
		p.once("section", it)
		p.inline(it.path, value)
		return
	case value.Kind == unstable.Array && isTables(it.path) && all(value, unstable.InlineTable):
		for c := value.Children(); c.Next(); {
			p.start(it.path[0], it.at)
			p.inline(it.path, c.Node())
		}
		p.table = nil
		return
	}
	p.once("key", it)
	switch value.Kind {
	case unstable.String, unstable.Bool, unstable.Integer:
		it.text = string(value.Data)
	case unstable.Array:
		if !all(value, unstable.String) {
			it.kind = unstable.Invalid // the wrong type for every key
		}
		var list []string
		for c := value.Children(); c.Next(); {
			list = append(list, string(c.Node().Data))
		}
		it.text = strings.Join(list, ",")
	default: // dates and floats: the wrong type for every key
	}
	if p.table != nil {
		p.table.items = append(p.table.items, it)
	} else {
		p.items = append(p.items, it)
	}
}

func (p *parser) inline(path []string, table *unstable.Node) {
	for it := table.Children(); it.Next(); {
		p.keyValue(path, it.Node())
	}
}

// once notes a key or section, and adds a fault if the file had it before. The same key in two tables is no fault.
func (p *parser) once(what string, it item) {
	id := p.id(what, it.path)
	if first, ok := p.seen[id]; ok {
		p.faults.add(it.at, "%s given twice (first on line %d)", what, first.Line)
		return
	}
	p.seen[id] = it.at
}

// id returns the name under which seen has a key or section of the current table.
func (p *parser) id(what string, path []string) string {
	return fmt.Sprintf("%p %s %q", p.table, what, path)
}

// isTables reports whether a file may have several tables with that name.
func isTables(path []string) bool { return len(path) == 1 && slices.Contains(manyTables, path[0]) }

// all reports whether the array holds nothing but values of the kind.
func all(array *unstable.Node, kind unstable.Kind) bool {
	for it := array.Children(); it.Next(); {
		if it.Node().Kind != kind {
			return false
		}
	}
	return true
}
