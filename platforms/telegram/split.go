package telegram

import "github.com/hermes-connector/hermes-connector/platforms/markdown"

// What one message may have: its length after formatting, in UTF-16 units, and its entities, of which Telegram drops
// any further ones.
const (
	maxText     = 4096
	maxEntities = 100
)

// part is one message of a long text.
type part struct {
	text     string
	entities []style
	at       int // where it begins in the whole, in UTF-16 units
}

// split cuts r into parts of at most limit UTF-16 units and maxEntities entities. A format that is cut ends with its
// part and begins again with the next. Only blanks at the cuts are lost.
func split(r rich, limit int) []part {
	s := splitter{entities: r.entities, Splitter: markdown.Splitter[uint16]{
		Text: encode16(r.text), Limit: limit, Decode: decode16, Length: units16,
	}}
	for _, e := range r.entities {
		if e.Type == entityPre {
			s.Blocks = append(s.Blocks, markdown.CodeBlock{Begin: e.Offset, From: e.Offset, To: e.end(), End: e.end()})
		}
	}
	var parts []part
	for start, end := range s.Parts(&s) {
		parts = append(parts, s.part(start, end))
	}
	return parts
}

// splitter is the markdown.Cuts of one text.
type splitter struct {
	markdown.Splitter[uint16]
	entities []style
}

// part is the text from start to end with the formats over it.
func (s *splitter) part(start, end int) part {
	for end > start && markdown.IsSpace(s.Text[end-1]) {
		end--
	}
	var over []style
	for _, e := range s.entities {
		from, to := max(e.Offset, start), min(e.end(), end)
		if from < to {
			e.Offset, e.Length = from-start, to-from
			over = append(over, e)
		}
	}
	text := s.Text[start:end]
	return part{text: decode16(text), entities: tidy(text, over), at: start}
}

// Reach implements markdown.Cuts: a part ends before it has an entity too many.
func (s *splitter) Reach(start int) int {
	n := 0
	for _, e := range s.entities {
		if e.end() <= start {
			continue
		}
		if n++; n > maxEntities {
			return min(start+s.Limit, max(e.Offset, start+1))
		}
	}
	return start + s.Limit
}

func (s *splitter) Words(int, int) func(int) bool { return func(int) bool { return true } }

func (s *splitter) Letters(int, int) bool { return true }
