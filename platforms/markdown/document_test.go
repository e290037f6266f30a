package markdown

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
)

var withLinks = goldmark.New().Parser()

// told is source within b, a line for each block: its kind and what it begins with, "raw" for what is not
// parsed, "+" after a blank line, and the first number of a list.
func told(source string, b Bounds) []string {
	d := Read(source, structure, b)
	var out []string
	for b := range d.Blocks() {
		kind, at := "raw", b.Start
		if b.Node != nil {
			kind, at = b.Node.Kind().String(), d.Begin(b.Node)
		}
		if b.Number > 0 {
			kind = fmt.Sprint(kind, b.Number)
		}
		if b.Blank && len(out) > 0 {
			kind = "+" + kind
		}
		first, _, _ := strings.Cut(string(d.Source()[at:]), "\n")
		out = append(out, kind+" "+first[:min(len(first), 12)])
	}
	return out
}

// TestOnlyTheMonstrousGoesRaw puts each sort of block that is too large between two that are not.
func TestOnlyTheMonstrousGoesRaw(t *testing.T) {
	bounds := Bounds{Markup: 1 << 8, Source: 4 << 10}
	many := func(line string) string { return strings.Repeat(line+"\n", bounds.Markup+1) }
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"paragraph":         {many("a"), []string{"+raw a"}},
		"a line":            {strings.Repeat("*", bounds.Markup+1) + "a\n", []string{"+raw ************"}},
		"a long line":       {strings.Repeat("a ", bounds.Source) + "\n", []string{"+raw a a a a a a "}},
		"a deep line":       {strings.Repeat("> ", MaxNesting+1) + "a\n", []string{"+raw > > > > > > "}},
		"a heading":         {"# " + strings.Repeat("[", bounds.Markup) + "\n", []string{"+raw # [[[[[[[[[["}},
		"underlined":        {many("a") + "---\n", []string{"+raw a"}},
		"quotation":         {many("> a") + "lazy\n", []string{"+raw > a"}},
		"an item":           {"3. a\n4. b\n" + many("   c") + "\n   d\n\n5. e\n", []string{"+List3 3. a", "raw 4. b", "+List5 5. e"}},
		"the only item":     {"- b\n" + many("  c"), []string{"+raw - b"}},
		"an html block":     {"<div>\n" + many("a"), []string{"+raw <div>"}},
		"a comment":         {"<!--\n\n" + many("a") + "\n-->\n", []string{"+raw <!--"}},
		"a table":           {"|a|\n|-|\n" + many("|b|"), []string{"+raw |a|"}},
		"indented code":     {many("    a") + "\n    b\n", []string{"+raw     a"}},
		"a list":            {many("- a"), []string{"+List - a", "List - a", "List - a"}},
		"a numbered list":   {"2. a\n" + many("1. a"), []string{"+List2 2. a", "List129 1. a", "List257 1. a"}},
		"many blank lines":  {"a\n" + many(""), []string{"+Paragraph a"}},
		"an item of blanks": {"- a\n" + many("") + "  b\n" + many("") + "- c\n", []string{"+raw - a", "+List - c"}},
		"definitions":       {many("[a]: /b"), []string{"+raw [a]: /b"}},
		"a code block":      {"```\n" + many("*a*\n") + "```\n", []string{"+FencedCodeBlock ```"}},
		"an open one":       {"   ~~~~ go\n" + many("~~~") + "    ~~~~~\n ~~~~~ \n", []string{"+FencedCodeBlock    ~~~~ go"}},
		"code behind text":  {many("a") + "```\n\nb\n```\n", []string{"+raw a", "FencedCodeBlock ```"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := append(append([]string{"Heading # b"}, tc.want...), "+Heading # e")
			if diff := cmp.Diff(want, told("# b\n\n"+tc.in+"\n# e\n", bounds)); diff != "" {
				t.Errorf("blocks (-want +got):\n%s", diff)
			}
			// without blank lines around, where there is a border
			if strings.HasPrefix(tc.in, "    ") || strings.HasSuffix(tc.in, "\n\n") || strings.Contains(name, "html") {
				return
			}
			want[1] = strings.TrimPrefix(want[1], "+")
			want[len(want)-1] = "Heading # e"
			if diff := cmp.Diff(want, told("# b\n"+tc.in+"# e\n", bounds)); diff != "" {
				t.Errorf("blocks close together (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWorkIsInProportion counts the bytes that are parsed of texts that make cutting hard: twice the text
// may be twice the work, and no more.
func TestWorkIsInProportion(t *testing.T) {
	for name, unit := range map[string]string{
		"small and large blocks": "a\n\n" + strings.Repeat("b\n", MaxMarkup-1) + "\n",
		"just too large":         "a\n\n" + strings.Repeat("b\n", MaxMarkup+1) + "\n",
		"items":                  strings.Repeat("- a\n", MaxMarkup/2),
		"deep lines":             strings.Repeat("a\n\n"+strings.Repeat(">", MaxNesting+1)+"\n\n", 100),
		"long lines":             strings.Repeat("b", MaxSource) + "\n" + strings.Repeat("c", MaxSource) + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			work := func(times int) int {
				c := cutter{src: []byte(strings.Repeat(unit, times))}
				pieces := c.cut()
				for i, p := range pieces {
					if p.end <= p.start || i > 0 && pieces[i-1].end > p.start {
						t.Fatalf("piece %d is %+v", i, p)
					}
				}
				return c.looked
			}
			if one, two := work(4), work(8); two > 3*one || one > 16*len(unit)*4 {
				t.Errorf("%d bytes are looked at of a text of %d, %d of twice as much", one, 4*len(unit), two)
			}
		})
	}
}

func TestTextAboveATable(t *testing.T) {
	for in, want := range map[string][]string{
		"|a|\n|-|\n---\nb":          {"Table |a|", "ThematicBreak ---", "Paragraph b"},
		"a\n|a|\n|-|\n---\nb":       {"Paragraph a", "Table |a|", "ThematicBreak ---", "Paragraph b"},
		"a\nc  \n|a|\n|-|\n--\nb":   {"Paragraph a", "Table |a|", "Paragraph --"},
		"[a]: b\nc\n|a|\n|-|\n===":  {"LinkReferenceDefinition [a]: b", "Paragraph c", "Table |a|", "Paragraph ==="},
		"a\n\nc\n|a|\n|-|\n\n---\n": {"Paragraph a", "+Paragraph c", "Table |a|", "+ThematicBreak ---"},
		"a\n|a|\n|-|\n- c":          {"Paragraph a", "Table |a|", "List - c"},
		"a\n|b\n---\nc":             {"Heading a", "Paragraph c"},
	} {
		if diff := cmp.Diff(want, told(in, Bounds{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
	}
}

func TestReferencesReachTheWholeText(t *testing.T) {
	const filler = "word *word* word\n\n"
	long := strings.Repeat(filler, 3*MaxSource/len(filler))
	for name, in := range map[string]string{
		"used before": "[a][one]\n\n" + long + "[one]: /b\n[One]: /c\n",
		"used behind": "[one]: /b\n[One]: /c\n\n" + long + "[a][one]\n",
		"quoted":      "[a][one]\n\n" + long + "> [one]: /b\n>\n> [One]: /c\n",
	} {
		d := Read(in, withLinks, Bounds{})
		definitions := 0
		for b := range d.Blocks() {
			if b.Node.Kind() == ast.KindLinkReferenceDefinition {
				definitions++
			}
			if b.Node.Kind() != ast.KindBlockquote {
				continue
			}
			for c := range d.Children(b.Node) {
				if c.Node.Kind() == ast.KindLinkReferenceDefinition {
					definitions++
				}
			}
		}
		if definitions != 1 { // the second one, of a label that is taken
			t.Errorf("%s: %d definitions are left, want 1", name, definitions)
		}
	}
	var defs strings.Builder
	for i := range 2 * maxReferences {
		fmt.Fprintf(&defs, "[%d]: /b\n\n", i)
	}
	if d := Read(defs.String(), withLinks, Bounds{}); len(d.refs) != maxReferences {
		t.Errorf("%d definitions are kept, want %d", len(d.refs), maxReferences)
	}
}

// TestMemoryIsThatOfOnePiece walks texts of a length that is just fit to be parsed at once and of the
// greatest there is, and compares how much memory each holds meanwhile.
func TestMemoryIsThatOfOnePiece(t *testing.T) {
	held := func(source string) int {
		runtime.GC()
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		most, blocks := 0, 0
		for b := range Read(source, withLinks, Bounds{}).Blocks() {
			if blocks++; blocks%4000 == 1 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				most = max(most, int(now.HeapAlloc)-int(before.HeapAlloc))
			}
			runtime.KeepAlive(b)
		}
		return most
	}
	for name, unit := range map[string]string{
		"paragraphs":  "a\n\n",
		"emphasis":    "*a* *b*\n\n",
		"links":       strings.Repeat("[a](b) ", 100) + "\n\n",
		"items":       "- a\n",
		"definitions": "[a]: b\n\n[a]\n\n",
		"tables":      strings.Repeat("|a", 50) + "|\n" + strings.Repeat("|-", 50) + "|\n" + strings.Repeat("b\n", 50) + "\n",
		"a paragraph": "*a*\n",
	} {
		t.Run(name, func(t *testing.T) {
			long := strings.Repeat(unit, MaxText/len(unit))
			short := long[:(Bounds{}).reach([]byte(long), 0)]
			least := held(short)
			if most := held(long); most > 2*least+4*MaxText {
				t.Errorf("%d KiB hold %d KiB, %d KiB held %d", len(long)>>10, most>>10, len(short)>>10, least>>10)
			}
		})
	}
}
