package dialect

import "github.com/hermes-connector/hermes-connector/platforms/markdown"

// The limits of one message: its length after formatting, in UTF-16 units, and its entities; Telegram drops further
// ones.
const (
	MaxText     = 4096
	MaxEntities = 100
)

// Part is one message of a long text.
type Part struct {
	Text     string
	Entities []Style
	At       int // where it begins in the whole, in UTF-16 units
}

// Split cuts r into parts of at most limit UTF-16 units and MaxEntities entities. A format that is cut ends with its
// part and begins again with the next. Only blanks at the cuts are lost.
func Split(r Rich, limit int) []Part {
	s := splitter{entities: r.entities, Splitter: markdown.Splitter[uint16]{
		Text: Encode(r.text), Limit: limit, Decode: Decode, Length: Units,
	}}
	for _, e := range r.entities {
		if e.Type == entityPre {
			s.Blocks = append(s.Blocks, markdown.CodeBlock{Begin: e.Offset, From: e.Offset, To: e.end(), End: e.end()})
		}
	}
	var parts []Part
	for start, end := range s.Parts(&s) {
		parts = append(parts, s.part(start, end))
	}
	return parts
}

// splitter is the markdown.Cuts of one text.
type splitter struct {
	markdown.Splitter[uint16]
	entities []Style
}

// part returns the text from start to end with the formats over it.
func (s *splitter) part(start, end int) Part {
	for end > start && markdown.IsSpace(s.Text[end-1]) {
		end--
	}
	var over []Style
	for _, e := range s.entities {
		from, to := max(e.Offset, start), min(e.end(), end)
		if from < to {
			e.Offset, e.Length = from-start, to-from
			over = append(over, e)
		}
	}
	text := s.Text[start:end]
	return Part{Text: Decode(text), Entities: tidy(text, over), At: start}
}

// Reach implements markdown.Cuts: a part ends before it has an entity too many.
func (s *splitter) Reach(start int) int {
	n := 0
	for _, e := range s.entities {
		if e.end() <= start {
			continue
		}
		if n++; n > MaxEntities {
			return min(start+s.Limit, max(e.Offset, start+1))
		}
	}
	return start + s.Limit
}
