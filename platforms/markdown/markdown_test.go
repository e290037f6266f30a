package markdown

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"
)

func parse(source string) (ast.Node, []byte) {
	src := []byte(source)
	return goldmark.New(goldmark.WithExtensions(Tables{})).Parser().Parse(text.NewReader(src)), src
}

func TestTable(t *testing.T) {
	for name, tc := range map[string]struct {
		source string
		want   []string
	}{
		"aligned": {
			"| a | bb | c |\n|:--|--:|:-:|\n| one | 2 | x |\n",
			[]string{"a   | bb | c", "----+----+--", "one |  2 | x"},
		},
		"wide runes": {"| 木 | b |\n|--|--|\n| a | c |\n", []string{"木 | b", "---+--", "a  | c"}},
		"surplus cells stay": {
			"| a | b |\n|--|--|\n| 1 | 2 | 3 |\n",
			[]string{"a | b", "--+---+--", "1 | 2 | 3"},
		},
		"too wide to align": {
			"| a | b |\n|--|--|\n| " + strings.Repeat("x", 150) + " | 2 |\n",
			[]string{"a | b", "--+--", strings.Repeat("x", 150) + " | 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			doc, src := parse(tc.source)
			n, ok := doc.FirstChild().(*extast.Table)
			if !ok {
				t.Fatalf("%q is no table", tc.source)
			}
			got := tableLines(src, n)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFit(t *testing.T) {
	for name, tc := range map[string]struct {
		source string
		want   bool
	}{
		"prose":                {"1. one\n> - two\n", true},
		"as long as may be":    {strings.Repeat("a", MaxSource), true},
		"longer":               {strings.Repeat("a", MaxSource+1), false},
		"as many lines":        {strings.Repeat("a\n", MaxMarkup), true},
		"more lines":           {strings.Repeat("a\n", MaxMarkup+1), false},
		"as much emphasis":     {"a" + strings.Repeat("*", MaxMarkup-1), true},
		"more emphasis":        {"a" + strings.Repeat("*", MaxMarkup), false},
		"a large table":        {"|a|b|c|d|e|\n|-|-|-|-|-|\n" + strings.Repeat("|1|2|3|4|5|\n", 300), true},
		"wide, with bare rows": {strings.Repeat("|a", 100) + "\n" + strings.Repeat("|-", 100) + "\n" + strings.Repeat("a\n", 100), false},
		"in a list":            {"- a" + strings.Repeat("|a", 100) + "\n  " + strings.Repeat("-|", 100) + "-\n" + strings.Repeat("  a\n", 100), false},
		"in a quotation":       {"> " + strings.Repeat("|a", 100) + "\n> " + strings.Repeat("|:-:", 100) + "\n" + strings.Repeat("> a\n", 100), false},
		"a wide one that ends": {strings.Repeat("|a", 100) + "\n" + strings.Repeat("|-", 100) + "\n\n" + strings.Repeat("a\n", 100), true},
		"as deep as may be":    {strings.Repeat("> ", MaxNesting), true},
		"deeper":               {"x\n" + strings.Repeat("> ", MaxNesting+1), false},
		"a rule is not nested": {"x " + strings.Repeat("*", 500), true},
	} {
		if got := (Bounds{}).reach([]byte(tc.source), 0) == len(tc.source); got != tc.want {
			t.Errorf("%s: fits %v, want %v", name, got, tc.want)
		}
	}
}

func TestBlankLineBefore(t *testing.T) {
	src := []byte("a\n\nb\nc\n> \n> d")
	for pos, want := range map[int]bool{0: true, 2: false, 3: true, 5: false, 12: true, 99: false, -1: false} {
		if got := blankLineBefore(src, pos, ">"); got != want {
			t.Errorf("blankLineBefore(%d) = %v, want %v", pos, got, want)
		}
	}
}

// TestCellsAreCounted compares what is counted with what the parser makes: cells are what a small text
// can have millions of.
func TestCellsAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.StringOfN(rapid.SampledFrom([]rune("|||---::>a 1.\t`\\")), 0, 12, -1)
		source := strings.Join(rapid.SliceOfN(line, 0, 12).Draw(t, "lines"), "\n")
		doc, _ := parse(source)
		cells := 0
		_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if entering && n.Kind() == extast.KindTableCell {
				cells++
			}
			return ast.WalkContinue, nil
		})
		var w weigher
		for line := range strings.Lines(source) {
			w.add([]byte(line))
		}
		if w.weight < cells {
			t.Fatalf("%q has %d cells, counted as %d", source, cells, w.weight)
		}
	})
}
