// Package markdown holds what every platform's rendering of CommonMark needs: what is fit to be
// parsed, and the parts of a document whose meaning does not depend on the dialect. How a dialect
// says them is the platform's.
package markdown

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/util"
)

const (
	// MaxSource is the longest text, in bytes, that is fit to be parsed. The parser takes quadratic
	// time on text made to trouble it: a second for this much, and a minute for a frame full.
	MaxSource = 64 << 10
	// MaxNesting is how deep lists and quotations of one line may nest. People stop at five; the
	// parser takes quadratic time beyond.
	MaxNesting = 100
	// MaxMarkup bounds what the parser makes something of, which takes up to 800 bytes for each: lines,
	// characters that are markup somewhere, cells of tables. A dense document of 40 KB is below it. A table's
	// rows get every cell that its head has, so that a few KB could mean millions.
	MaxMarkup = 4 << 10
	// MaxText is how many characters a text may have. Networks would make a hundred messages of more,
	// which nobody reads and no deadline allows, and it takes many times its size in memory to do so.
	MaxText = 1 << 17
	// Short is the longest text, in bytes, of which any number may be rendered at a time.
	Short = 2 << 10
)

// Fit reports whether source can be parsed in reasonable time and memory. What is not is sent as it is.
func Fit(source string) bool {
	return len(source) <= MaxSource && nesting(source) <= MaxNesting && markup(source) <= MaxMarkup
}

// TooLong reports whether source has more than MaxText characters.
func TooLong(source string) bool { return utf8.RuneCountInString(source) > MaxText }

// markup is about how much the parser makes something of, and never much less.
func markup(source string) int {
	n := 0
	width := 0 // of the table that this line may be a row of
	for line := range strings.Lines(source) {
		n += 1 + markers(line)
		pipes := 0
		for i := range len(line) {
			switch line[i] {
			case '|':
				pipes++
			case '*', '_', '~', '[', ']', '<', '>', '`':
				n++
			}
		}
		n += max(pipes, width)
		switch {
		case strings.TrimSpace(line) == "":
			width = 0
		case pipes > 0 && strings.Trim(line, ">|:- \t\v\f\n") == "": // the line beneath a table's head
			width = max(width, pipes+1)
		}
	}
	return n
}

// nesting is the greatest number of container markers any line of s begins with.
func nesting(s string) int {
	most := 0
	for line := range strings.Lines(s) {
		most = max(most, markers(line))
	}
	return most
}

// markers is how many container markers line may begin with.
func markers(line string) int {
	n := 0
	for _, c := range line {
		if !strings.ContainsRune(" \t>-+*0123456789.)", c) {
			break
		}
		if strings.ContainsRune(">-+*.)", c) {
			n++
		}
	}
	return n
}

// NotInLanguage reports whether c does not belong in the name of a language behind a fence.
func NotInLanguage(c rune) bool {
	return c > 0x7e || !util.IsAlphaNumeric(byte(c)) && !strings.ContainsRune("+-#._", c)
}

// UsedReferences are the labels of the definitions that links or images of doc were made of.
func UsedReferences(doc ast.Node) map[string]bool {
	used := make(map[string]bool)
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		var ref *ast.ReferenceLink
		switch n := n.(type) {
		case *ast.Link:
			ref = n.Reference
		case *ast.Image:
			ref = n.Reference
		}
		if entering && ref != nil {
			used[util.ToLinkReference(ref.Value)] = true
		}
		return ast.WalkContinue, nil
	})
	return used
}

// BlankBefore reports whether the line before the one with byte pos of source is blank.
func BlankBefore(source []byte, pos int) bool {
	if pos < 0 || pos > len(source) {
		return false
	}
	before := source[:pos]
	before = before[:max(bytes.LastIndexByte(before, '\n'), 0)]
	return len(bytes.TrimSpace(before[bytes.LastIndexByte(before, '\n')+1:])) == 0
}
