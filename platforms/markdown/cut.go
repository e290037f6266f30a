package markdown

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// piece is a stretch of a text that can be parsed by itself: whole blocks, or whole items of a list.
type piece struct {
	start, end int  // bytes; a line begins with each
	raw        bool // it is not parsed: its text is one block
	blank      bool // a blank line stands before it
	goesOn     bool // its first block is the rest of a list that the piece before began
	number     int  // if goesOn: of the first item in that rest; 0 in a list without numbers
}

// cutter cuts a text into pieces within bounds. Later text does not change a block that has ended. So the cutter parses
// as much as the bounds allow, and cuts before the last block or list item that it found, because only that one may
// continue.
type cutter struct {
	// Set once.
	src    []byte
	bounds Bounds

	looked int // how many bytes have been parsed
}

func (c *cutter) cut() []piece {
	var pieces []piece
	for next := (piece{start: c.behindBlank(0)}); next.start < len(c.src); {
		var p piece
		p, next = c.next(next)
		pieces = append(pieces, p)
	}
	return pieces
}

// next finds the end of the piece p, and the beginning of the piece behind it.
func (c *cutter) next(p piece) (this, next piece) {
	p.end = c.bounds.reach(c.src, p.start)
	if p.end == len(c.src) {
		return p, piece{start: p.end}
	}
	ahead := p.end + len(c.ahead(p.end))
	c.looked += ahead - p.start
	doc := structure.Parse(readerAt(c.src, p.start, ahead))
	if next, ok := c.rest(p, doc); ok {
		p.end = next.start
		return p, next
	}
	return c.large(p, ahead)
}

// ahead returns what has to be parsed of the line behind a piece, to know whether the piece's last block continues. A
// blank line need not be parsed: there may be thousands.
func (c *cutter) ahead(at int) []byte {
	line := lineAt(c.src, at)
	if util.IsBlank(line) {
		return nil
	}
	return c.fit(line)
}

// maxLook is how many bytes are parsed of a line that is too much for the parser.
const maxLook = 100

// fit returns line, or only its first maxLook bytes if the line alone is too much for the parser.
func (c *cutter) fit(line []byte) []byte {
	if len(line) > maxLook && (Bounds{}).reach(line, 0) == 0 {
		return line[:maxLook]
	}
	return line
}

// rest returns the piece that begins with the last block or list item of doc, which is what the parser made of p and
// perhaps of one more line. It returns false if p itself begins with that block.
func (c *cutter) rest(p piece, doc ast.Node) (piece, bool) {
	last := doc.LastChild()
	if last == nil {
		return piece{}, false
	}
	if list, ok := last.(*ast.List); ok && list.ChildCount() > 1 {
		number := list.Start
		if p.goesOn && list.PreviousSibling() == nil {
			number = p.number
		}
		if list.IsOrdered() {
			number += list.ChildCount() - 1
		}
		item := list.LastChild()
		return piece{
			start: lineOf(c.src, item.Pos()), blank: item.HasBlankPreviousLines(),
			goesOn: true, number: number,
		}, true
	}
	for last.PreviousSibling() != nil && oneParagraph(c.src, last.PreviousSibling(), last) {
		last = last.PreviousSibling()
	}
	start := lineOf(c.src, max(beginOf(last), 0))
	return piece{start: start, blank: blankBefore(c.src, last)}, start > p.start
}

// oneParagraph reports whether the lines of a and b, which follow each other, may have been one paragraph until the
// parser took definitions of references or a table out of it. With one more line the parser may take out something
// else, so that no block begins where b does. So the text must not be cut before b.
func oneParagraph(src []byte, a, b ast.Node) bool {
	switch b.Kind() {
	case ast.KindParagraph, ast.KindHeading, ast.KindLinkReferenceDefinition:
		return a.Kind() == ast.KindLinkReferenceDefinition && !blankBefore(src, b)
	case extast.KindTable:
		return (a.Kind() == ast.KindLinkReferenceDefinition || a.Kind() == ast.KindParagraph) && !blankBefore(src, b)
	}
	return false
}

// behindBlank returns where the first line that is not blank begins, from at on.
func (c *cutter) behindBlank(at int) int {
	for at < len(c.src) {
		line := lineAt(c.src, at)
		if !util.IsBlank(line) {
			break
		}
		at += len(line)
	}
	return at
}

// large does the work of next for a piece whose first block or item exceeds the bounds: it returns that piece with its
// end, and the piece behind it. A fenced code block is parsed anyway, because the parser does nothing with its lines.
// Any other block is raw if it has lines beyond the bounds that are not blank. To find its end, large reads the lines
// behind one by one, and parses each beneath a short line that stands for the block. ahead is the end of the text
// parsed so far.
func (c *cutter) large(p piece, ahead int) (this, next piece) {
	first := lineAt(c.src, p.start)
	block := lineByLine.Parse(text.NewReader(c.fit(first))).FirstChild()
	if _, ok := block.(*ast.FencedCodeBlock); ok {
		p.end = endOfFence(c.src, p.start)
		next.start = c.behindBlank(p.end)
		next.blank = next.start > p.end
		return p, next
	}
	ordered := false
	if list, ok := block.(*ast.List); ok {
		ordered = list.IsOrdered()
		if !p.goesOn {
			p.number = list.Start
		}
	}
	seen := lineOf(c.src, ahead-1) // where the last line parsed so far begins
	at := seen + len(lineAt(c.src, seen))
	p.raw, next.blank = ahead > p.end, util.IsBlank(c.src[seen:at])
	stand := standIn(block, first)
	for at < len(c.src) {
		line := lineAt(c.src, at)
		if util.IsBlank(line) {
			next.blank = true
			at += len(line)
			continue
		}
		c.looked += len(stand) + len(line)
		more, item := continues(stand, next.blank, c.fit(line))
		if more == ended {
			next.goesOn = item
			break
		}
		p.raw, next.blank = true, false
		at += len(line)
		if more == endsHere {
			end := at
			at = c.behindBlank(at)
			next.blank = at > end
			break
		}
	}
	p.end, next.start = at, at
	if next.goesOn && ordered {
		next.number = p.number + 1
	}
	return p, next
}

// standIn returns a short line that begins the same sort of block or item as first, the first line of block.
func standIn(block ast.Node, first []byte) string {
	switch n := block.(type) {
	case *ast.Heading, *ast.ThematicBreak: // which ended with that line
		return "***\n"
	case *ast.CodeBlock:
		return "    x\n"
	case *ast.Blockquote:
		return "> x\n"
	case *ast.List:
		marker := first[:bytes.IndexByte(first, n.Marker)+1]
		gap := n.FirstChild().(*ast.ListItem).Offset - len(marker)
		return string(marker) + strings.Repeat(" ", max(gap, 1)) + "x\n"
	case *ast.HTMLBlock:
		if n.HTMLBlockType <= ast.HTMLBlockType5 {
			behind := lineByLine.Parse(text.NewReader(append(bytes.Clone(first), "x\n"...)))
			if behind.ChildCount() > 1 { // it ended with that line
				return "***\n"
			}
		}
		return map[ast.HTMLBlockType]string{
			ast.HTMLBlockType1: "<pre>\n", ast.HTMLBlockType2: "<!--\n", ast.HTMLBlockType3: "<?\n", ast.HTMLBlockType4: "<!X\n",
			ast.HTMLBlockType5: "<![CDATA[\n", ast.HTMLBlockType6: "<p>\n", ast.HTMLBlockType7: "<x>\n",
		}[n.HTMLBlockType]
	}
	return "x\n"
}

// continuation says how a line relates to the block before it.
type continuation int

const (
	within   continuation = iota
	endsHere              // the block's last line
	ended                 // the line begins another block or item
)

// continues says how line relates to the block that the line stand begins. item reports that line begins the next item
// of that block's list. blank says that blank lines are between stand and line.
func continues(stand string, blank bool, line []byte) (c continuation, item bool) {
	if blank {
		stand += "\n"
	}
	doc := lineByLine.Parse(text.NewReader(append([]byte(stand), line...)))
	switch n := doc.FirstChild().(type) {
	case *ast.List:
		if n.ChildCount() > 1 {
			return ended, true
		}
	case *ast.Heading: // line underlines the text in stand, and so makes a heading of it
		return endsHere, false
	case *ast.HTMLBlock:
		if n.HasClosure() {
			return endsHere, false
		}
	}
	if doc.ChildCount() > 1 {
		return ended, false
	}
	return within, false
}

// endOfFence returns the end of the fenced code block that begins at start; the end of src if no fence closes the
// block.
func endOfFence(src []byte, start int) int {
	line := lineAt(src, start)
	open := bytes.TrimLeft(line, " ")
	fence := open[:len(open)-len(bytes.TrimLeft(open, string(open[:1])))]
	for at := start + len(line); at < len(src); at += len(line) {
		line = lineAt(src, at)
		body := bytes.TrimLeft(line, " ")
		rest := bytes.TrimLeft(body, string(fence[:1]))
		if len(line)-len(body) < 4 && len(body)-len(rest) >= len(fence) && util.IsBlank(rest) {
			return at + len(line)
		}
	}
	return len(src)
}
