package markdown

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// large is the piece p when its first block or item has not ended where the bounds have, and the piece
// behind it. A code block is parsed all the same, for nothing is made of its lines. Anything else is raw,
// unless only blank lines follow within it. ahead is where what has been looked at ends.
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
	seen := lineOf(c.src, ahead-1) // where the last line of that begins
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

// standIn is a line that begins a block or an item just as first begins block, and says little else.
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

// continuation says what a line is to the block before it.
type continuation int

const (
	within   continuation = iota
	endsHere              // the block's last line
	ended                 // the line begins another block or item
)

// continues says whether line goes on with the block that stand begins, and, if not, whether it is the next
// item of its list. blank: there are blank lines between.
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
	case *ast.Heading: // the line beneath it
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

// endOfFence is where the code block ends that begins at start, with its last line.
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
