package dialect

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
)

// The types of styles that we write. Telegram knows more types, and finds those by itself.
const (
	entityBold    = "bold"
	entityItalic  = "italic"
	entityStrike  = "strikethrough"
	entitySpoiler = "spoiler"
	entityCode    = "code"
	entityPre     = "pre"
	entityLink    = "text_link"
	entityQuote   = "blockquote"
)

// Style is Telegram's MessageEntity: a format laid over a range of UTF-16 units.
type Style struct {
	Type     string `json:"type"`
	Offset   int    `json:"offset"`
	Length   int    `json:"length"`
	URL      string `json:"url,omitempty"`
	Language string `json:"language,omitempty"`
}

func (e Style) end() int { return e.Offset + e.Length }

// verbatim reports whether no other format may overlap e, save a quotation around it.
func (e Style) verbatim() bool { return e.Type == entityCode || e.Type == entityPre }

// Rich is text with its formats, and where each piece of the text stood in the markdown. Its entities are legal for
// Telegram: inside the text, not empty, sorted by offset and then outermost first, each two apart or one inside the
// other, without blanks at their ends (but for pre), nothing inside code or pre, no quotation inside another.
type Rich struct {
	text     string
	entities []Style
	marks    []markdown.Mark
}

// tidy returns raw as entities that Telegram accepts (legal, as Rich says). Each two must be apart or one inside the
// other, the outer one first.
func tidy(text []uint16, raw []Style) []Style {
	var verbatim []Style
	for _, e := range raw {
		if e.verbatim() && e.Length > 0 {
			verbatim = append(verbatim, e)
		}
	}
	slices.SortFunc(verbatim, func(a, b Style) int { return cmp.Compare(a.Offset, b.Offset) })
	out := slices.Grow([]Style(nil), len(raw))
	keep := func(e Style) {
		if e = trimmed(text, e, verbatim); e.Length > 0 {
			out = append(out, e)
		}
	}
	for _, e := range raw {
		if e.verbatim() || e.Type == entityQuote || e.Type == entityLink {
			keep(e)
			continue
		}
		// Bold and the like stop before code and go on behind it.
		i, _ := slices.BinarySearchFunc(verbatim, e.Offset, func(v Style, at int) int { return cmp.Compare(v.end(), at+1) })
		for ; i < len(verbatim) && verbatim[i].Offset < e.end(); i++ {
			v, head := verbatim[i], e
			head.Length = v.Offset - e.Offset
			keep(head)
			e.Offset, e.Length = v.end(), e.end()-v.end()
		}
		keep(e)
	}
	slices.SortStableFunc(out, func(a, b Style) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(b.Length, a.Length))
	})
	return out
}

// trimmed takes blanks off both ends of e, as Telegram would. Blanks inside pre are content.
func trimmed(text []uint16, e Style, verbatim []Style) Style {
	start, end := max(e.Offset, 0), min(e.end(), len(text))
	if e.Type == entityPre {
		if blank(text[start:max(start, end)]) {
			end = start
		}
	} else {
		first, last := end, start // a quotation keeps the whole of a pre at its ends
		i, _ := slices.BinarySearchFunc(verbatim, start, func(v Style, at int) int { return cmp.Compare(v.Offset, at) })
		for ; i < len(verbatim) && verbatim[i].Offset < end; i++ {
			if v := verbatim[i]; v.Type == entityPre && v.end() <= end && !blank(text[v.Offset:v.end()]) {
				first, last = min(first, v.Offset), max(last, v.end())
			}
		}
		for start < first && start < end && markdown.IsSpace(text[start]) {
			start++
		}
		for end > last && end > start && markdown.IsSpace(text[end-1]) {
			end--
		}
	}
	e.Offset, e.Length = start, end-start
	return e
}

func blank(text []uint16) bool {
	return !slices.ContainsFunc(text, func(u uint16) bool { return !markdown.IsSpace(u) })
}

// Units returns the length of s in UTF-16 units.
func Units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// Encode returns s in UTF-16 units, without the slice of runes that utf16.Encode needs: a text may be half a megabyte.
func Encode(s string) []uint16 {
	units := make([]uint16, 0, Units(s))
	for _, r := range s {
		units = utf16.AppendRune(units, r)
	}
	return units
}

// Decode returns the text of UTF-16 units.
func Decode(units []uint16) string {
	var out strings.Builder
	out.Grow(len(units))
	for i := 0; i < len(units); i++ {
		c := rune(units[i])
		if utf16.IsSurrogate(c) && i+1 < len(units) {
			if both := utf16.DecodeRune(c, rune(units[i+1])); both != utf8.RuneError {
				c = both
				i++
			}
		}
		out.WriteRune(c)
	}
	return out.String()
}

// SourceAt returns the offset in source, in bytes, of what the unit at and all later units of the text were made from.
// If a line of the source begins there, the line's markup is included.
func (r Rich) SourceAt(source string, at int) int {
	i, found := slices.BinarySearchFunc(r.marks, at, func(m markdown.Mark, at int) int { return cmp.Compare(m.At, at) })
	if !found {
		i--
	}
	if i < 0 {
		return 0
	}
	m := r.marks[i]
	pos := m.Start
	for n := m.At; n < at && pos < m.End; {
		c, size := utf8.DecodeRuneInString(source[pos:])
		n += utf16.RuneLen(c)
		pos += size
	}
	if pos != m.Start {
		return pos
	}
	line := strings.LastIndexByte(source[:pos], '\n') + 1
	if i > 0 && r.marks[i-1].End > line {
		return pos
	}
	return line
}
