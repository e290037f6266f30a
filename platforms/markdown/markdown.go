// Package markdown holds what every platform's rendering of CommonMark needs: what is fit to be
// parsed, and the parts of a document whose meaning does not depend on the dialect. How a dialect
// says them is the platform's.
package markdown

import (
	"strings"

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
)

// Fit reports whether source can be parsed in reasonable time. What is not is sent as it is.
func Fit(source string) bool {
	return len(source) <= MaxSource && nesting(source) <= MaxNesting
}

// nesting is the greatest number of container markers any line of s begins with.
func nesting(s string) int {
	most := 0
	for line := range strings.Lines(s) {
		n := 0
		for _, c := range line {
			if !strings.ContainsRune(" \t>-+*0123456789.)", c) {
				break
			}
			if strings.ContainsRune(">-+*.)", c) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
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
	before := string(source[:pos])
	before = before[:max(strings.LastIndexByte(before, '\n'), 0)]
	return strings.TrimSpace(before[strings.LastIndexByte(before, '\n')+1:]) == ""
}
