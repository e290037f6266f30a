package markdown

import (
	"bytes"
	"iter"
	"maps"
	"slices"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxReferences is how many reference definitions a text may have. A piece cannot have more.
const maxReferences = MaxMarkup / 3

// Document is a text in blocks. A long text is parsed piece by piece, so that it needs the memory of one piece; its
// blocks are those of the whole text. One goroutine walks it once.
type Document struct {
	// Set once, by Read.
	src    []byte
	parser parser.Parser
	pieces []piece
	refs   map[string]parser.Reference // of the whole text, by label
	only   ast.Node                    // the parsed text, if it is a single piece; else nil

	used map[string]bool // labels that links use, until their definition is reached
}

// Block is a block of a document: a node, or a stretch of the source that is not fit to be parsed.
type Block struct {
	Node       ast.Node // nil: not fit to be parsed
	Start, End int      // of an unparsed block, in bytes of the source, without the line end
	Blank      bool     // the author left a blank line before it; means nothing for the first block
	Number     int      // of a list's first item: a long list may come as several lists
}

// Read makes a document of source, whose lines end with \n. The parser p parses it in pieces within b. Of a text in
// several pieces, Read first collects all definitions of references, and then notes which of them links use, because a
// link may come before its definition.
func Read(source string, p parser.Parser, b Bounds) *Document {
	d := &Document{
		src:    []byte(source + "\n"), // the parser loses the last character of some lines without an end
		parser: p, refs: make(map[string]parser.Reference), used: make(map[string]bool),
	}
	c := cutter{src: d.src, bounds: b}
	d.pieces = c.cut()
	if len(d.pieces) == 1 && !d.pieces[0].raw {
		d.only = d.parse(d.parser, d.pieces[0])
		d.use(d.only)
		return d
	}
	for _, p := range d.pieces {
		if !p.raw && bytes.Contains(d.src[p.start:p.end], []byte("]:")) {
			d.parse(structure, p) // this collects the definitions of the piece in d.refs
		}
	}
	if len(d.refs) == 0 {
		return d
	}
	for _, p := range d.pieces {
		if !p.raw {
			d.use(d.parse(d.parser, p))
		}
	}
	return d
}

// Source returns the text to which the document's positions refer.
func (d *Document) Source() []byte { return d.src }

// Begin returns where the first line of the block n begins, in bytes of the source.
func (d *Document) Begin(n ast.Node) int { return lineOf(d.src, max(beginOf(n), 0)) }

// Blocks returns the blocks of the document, without the definitions of references that links use.
func (d *Document) Blocks() iter.Seq[Block] {
	return d.unspent(func(yield func(Block) bool) {
		for _, p := range d.pieces {
			for b := range d.piece(p) {
				if !yield(b) {
					return
				}
			}
		}
	})
}

// Children returns the blocks within n, without the definitions of references that links use.
func (d *Document) Children(n ast.Node) iter.Seq[Block] {
	return d.unspent(func(yield func(Block) bool) {
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			if !yield(d.block(c)) {
				return
			}
		}
	})
}

// piece returns the blocks of a piece.
func (d *Document) piece(p piece) iter.Seq[Block] {
	return func(yield func(Block) bool) {
		if p.raw {
			end := p.start + len(bytes.TrimRight(d.src[p.start:p.end], " \t\n"))
			end += bytes.IndexByte(d.src[end:], '\n')
			yield(Block{Start: p.start, End: end, Blank: p.blank})
			return
		}
		doc := d.only
		if doc == nil {
			doc = d.parse(d.parser, p)
		}
		for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
			b := d.block(n)
			if n.PreviousSibling() == nil {
				b.Blank = p.blank
				if p.goesOn {
					b.Number = p.number
				}
			}
			if !yield(b) {
				return
			}
		}
	}
}

// block returns the Block of n, which must still be among its siblings.
func (d *Document) block(n ast.Node) Block {
	b := Block{Node: n, Blank: blankBefore(d.src, n)}
	if list, ok := n.(*ast.List); ok {
		b.Number = list.Start
	}
	return b
}

// unspent returns blocks without the definitions that are spent. A blank line before such a definition counts for the
// block behind it.
func (d *Document) unspent(blocks iter.Seq[Block]) iter.Seq[Block] {
	return func(yield func(Block) bool) {
		blank := false
		for b := range blocks {
			b.Blank = b.Blank || blank
			if def, ok := b.Node.(*ast.LinkReferenceDefinition); ok && d.spent(def) {
				blank = b.Blank
				continue
			}
			blank = false
			if !yield(b) {
				return
			}
		}
	}
}

// spent reports whether links use def, so that its text would say nothing new. Only the first definition of a label can
// be spent, because the parser ignores the later ones.
func (d *Document) spent(def *ast.LinkReferenceDefinition) bool {
	label := util.ToLinkReference(def.Label)
	spent := d.used[label]
	delete(d.used, label)
	return spent
}

// use notes the labels of the definitions that links and images of doc use.
func (d *Document) use(doc ast.Node) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		var ref *ast.ReferenceLink
		switch n := n.(type) {
		case *ast.Link:
			ref = n.Reference
		case *ast.Image:
			ref = n.Reference
		}
		if entering && ref != nil {
			d.used[util.ToLinkReference(ref.Value)] = true
		}
		return ast.WalkContinue, nil
	})
}

// parse parses the piece with p, which is d.parser or a parser that finds the same blocks.
func (d *Document) parse(p parser.Parser, of piece) ast.Node {
	return p.Parse(readerAt(d.src, of.start, of.end), parser.WithContext(&references{parser.NewContext(), d.refs}))
}

// references is a parser's context, with the definitions of a whole text.
type references struct {
	parser.Context
	refs map[string]parser.Reference
}

// AddReference implements parser.Context: of the definitions of a label the first one counts.
func (c *references) AddReference(ref parser.Reference) {
	label := util.ToLinkReference(ref.Label())
	if _, known := c.refs[label]; !known && len(c.refs) < maxReferences {
		c.refs[label] = ref
	}
}

func (c *references) Reference(label string) (parser.Reference, bool) {
	ref, ok := c.refs[label]
	return ref, ok
}

func (c *references) References() []parser.Reference { return slices.Collect(maps.Values(c.refs)) }

// readerAt reads src from start, the beginning of a line, to end.
func readerAt(src []byte, start, end int) text.Reader {
	r := text.NewReader(src[:end])
	r.SetPosition(0, text.NewSegment(start, start))
	r.AdvanceLine()
	return r
}

// blankBefore reports whether the author left a blank line before n. The parser's own answer is wrong behind some
// blocks.
func blankBefore(src []byte, n ast.Node) bool {
	prev := n.PreviousSibling()
	if prev == nil {
		return n.HasBlankPreviousLines()
	}
	if n.Parent().Kind() == ast.KindDocument {
		return blankLineBefore(src, beginOf(n), "")
	}
	behind := []ast.NodeKind{ast.KindFencedCodeBlock, ast.KindHTMLBlock, ast.KindLinkReferenceDefinition}
	if n.Kind() == extast.KindTable || slices.Contains(behind, prev.Kind()) { // here the parser is wrong
		return blankLineBefore(src, beginOf(n), ">")
	}
	return n.HasBlankPreviousLines()
}

// blankLineBefore reports whether the line before the one that contains byte pos of src has only blanks and characters
// of marks. It returns true if there is no line before.
func blankLineBefore(src []byte, pos int, marks string) bool {
	if pos < 0 || pos > len(src) {
		return false
	}
	line := lineOf(src, pos)
	return line == 0 || util.IsBlank(bytes.Trim(src[lineOf(src, line-1):line], marks+" \t\n"))
}

// beginOf returns the position of a byte in the first line of the block n. The parser's own position is that of the
// paragraph from which n was made, and that paragraph may have begun with another block.
func beginOf(n ast.Node) int {
	switch n := n.(type) {
	case *extast.Table:
		if head := n.FirstChild().FirstChild().Lines(); head.Len() > 0 {
			return head.At(0).Start
		}
	case *ast.Paragraph, *ast.TextBlock, *ast.LinkReferenceDefinition:
		return n.Lines().At(0).Start
	}
	return n.Pos()
}
