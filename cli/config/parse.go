package config

import (
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// document is a parsed file before anyone asked what its keys mean.
type document struct {
	items    []item
	sections []item // headers other than [[bots]]; kind is Table or ArrayTable
	bots     []int  // the line of each bot's table
}

// item is one key with its value.
type item struct {
	path []string
	bot  int // index into document.bots, or -1
	line int
	kind unstable.Kind
	text string   // of a scalar, as env would spell it
	list []string // of an array of strings
}

// parse reads a TOML file. What breaks the file's own grammar is a fault here: a key or a section
// given twice, or a syntax error; then ok is false, and nothing else can be said about the file.
func parse(data []byte, j *judge) (doc *document, ok bool) {
	p := parser{judge: j, seen: make(map[string]int), bot: -1}
	for i, b := range data {
		if b == '\n' {
			p.newlines = append(p.newlines, i)
		}
	}
	p.ast.Reset(data)
	for p.ast.NextExpression() {
		p.expression(p.ast.Expression())
	}
	if p.ast.Error() == nil && len(j.faults) > 0 {
		return &p.doc, true // given twice: said with both lines, better than the decoder can
	}
	// The decoder knows the rules that the parser does not. Its excerpt of the file never reaches
	// a fault: it may hold a token.
	var whole map[string]any
	if err := toml.Unmarshal(data, &whole); err != nil {
		at, what := place{}, ""
		var de *toml.DecodeError
		if errors.As(err, &de) {
			at.line, _ = de.Position()
			what = ": " + strings.TrimPrefix(de.Error(), "toml: ")
		}
		j.faults = nil
		j.add(at, "not valid TOML%s", what)
		return nil, false
	}
	return &p.doc, true
}

type parser struct {
	judge    *judge
	ast      unstable.Parser
	newlines []int // offsets
	doc      document
	prefix   []string       // the section the next keys belong to
	bot      int            // the bot the next keys belong to, or -1
	seen     map[string]int // path, with the bot's index, to its first line
}

func (p *parser) expression(n *unstable.Node) {
	switch n.Kind {
	case unstable.Table:
		path, line := p.key(n.Key())
		p.prefix, p.bot = path, -1
		p.once("["+strings.Join(path, "\x00"), place{line: line, path: spellPath(path)}, "section")
		p.doc.sections = append(p.doc.sections, item{path: path, bot: -1, line: line, kind: n.Kind})
	case unstable.ArrayTable:
		path, line := p.key(n.Key())
		p.prefix, p.bot = path, -1
		if isBots(path) {
			p.startBot(line)
			return
		}
		p.doc.sections = append(p.doc.sections, item{path: path, bot: -1, line: line, kind: n.Kind})
	case unstable.KeyValue:
		p.keyValue(p.prefix, n)
	default: // comments: the parser skips them
	}
}

func (p *parser) startBot(line int) {
	p.bot = len(p.doc.bots)
	p.doc.bots = append(p.doc.bots, line)
}

func (p *parser) keyValue(prefix []string, n *unstable.Node) {
	key, line := p.key(n.Key())
	path := slices.Concat(prefix, key)
	value := n.Value()
	switch {
	case value.Kind == unstable.InlineTable && !isBots(path):
		p.inline(path, value)
		return
	case value.Kind == unstable.Array && isBots(path) && onlyTables(value):
		for it := value.Children(); it.Next(); {
			p.startBot(line)
			p.inline(path, it.Node())
		}
		p.bot = -1
		return
	}
	p.once(strings.Join(path, "\x00"), place{line: line, path: spellPath(path)}, "key")
	it := item{path: path, bot: p.bot, line: line, kind: value.Kind}
	switch value.Kind {
	case unstable.String, unstable.Bool:
		it.text = string(value.Data)
	case unstable.Integer:
		it.text = strings.ReplaceAll(string(value.Data), "_", "")
	case unstable.Array:
		for c := value.Children(); c.Next(); {
			if c.Node().Kind != unstable.String {
				it.kind = unstable.Invalid // no array of strings: the wrong type for every key
			}
			it.list = append(it.list, string(c.Node().Data))
		}
	default: // dates and floats: the wrong type for every key
	}
	p.doc.items = append(p.doc.items, it)
}

func (p *parser) inline(path []string, table *unstable.Node) {
	for it := table.Children(); it.Next(); {
		p.keyValue(path, it.Node())
	}
}

// once reports a key or section that was there before. Keys of different bots are different.
func (p *parser) once(id string, at place, what string) {
	id = strconv.Itoa(p.bot) + "\x00" + id
	if first, ok := p.seen[id]; ok {
		p.judge.add(at, "%s given twice (first on line %d)", what, first)
		return
	}
	p.seen[id] = at.line
}

// key is a dotted key and the line it stands on.
func (p *parser) key(it unstable.Iterator) (path []string, line int) {
	for it.Next() {
		if line == 0 {
			line = sort.SearchInts(p.newlines, int(it.Node().Raw.Offset)) + 1
		}
		path = append(path, string(it.Node().Data))
	}
	return path, line
}

func isBots(path []string) bool { return len(path) == 1 && path[0] == botsSection }

func onlyTables(array *unstable.Node) bool {
	for it := array.Children(); it.Next(); {
		if it.Node().Kind != unstable.InlineTable {
			return false
		}
	}
	return true
}

// spellPath renders section.key.
func spellPath(path []string) string {
	parts := make([]string, 0, len(path))
	for _, p := range path[:min(len(path), 6)] {
		parts = append(parts, spell(p))
	}
	return strings.Join(parts, ".")
}
