package telegram

import (
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// spoilers extends CommonMark with ||hidden text||, the notation gateways are used to on
// Telegram.
type spoilers struct{}

func (spoilers) Extend(m goldmark.Markdown) {
	m.Parser().AddOptions(parser.WithInlineParsers(util.Prioritized(spoilerParser{}, 500)))
}

// spoiler is a node of hidden text.
type spoiler struct{ ast.BaseInline }

var kindSpoiler = ast.NewNodeKind("Spoiler")

func (*spoiler) Kind() ast.NodeKind { return kindSpoiler }

func (n *spoiler) Dump(source []byte, level int) { ast.DumpHelper(n, source, level, nil, nil) }

// spoilerParser finds the bars. It follows the rules of emphasis, so "a || b" is none.
type spoilerParser struct{}

func (spoilerParser) Trigger() []byte { return []byte{'|'} }

func (p spoilerParser) Parse(_ ast.Node, block text.Reader, pc parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	line, segment := block.PeekLine()
	node := parser.ScanDelimiter(line, before, 2, p)
	if node == nil || node.OriginalLength != 2 || before == '|' {
		return nil
	}
	node.Segment = segment.WithStop(segment.Start + node.OriginalLength)
	block.Advance(node.OriginalLength)
	pc.PushDelimiter(node)
	return node
}

func (spoilerParser) IsDelimiter(b byte) bool { return b == '|' }

func (spoilerParser) CanOpenCloser(opener, closer *parser.Delimiter) bool {
	return opener.Char == closer.Char
}

func (spoilerParser) OnMatch(int) ast.Node { return &spoiler{} }
