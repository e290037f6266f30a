package telegram

import (
	"encoding/json"
	"strings"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"
)

// richMessage is a message of blocks, which has no text of its own, as plain text: a block is a line, a row of a table
// too. What blocks and formats it knows not, it reads by the members that all of them share.
type richMessage struct {
	text     string
	entities []tgbotapi.MessageEntity // those that address somebody
}

// UnmarshalJSON never fails: what makes no sense is a message of which no more is known.
func (r *richMessage) UnmarshalJSON(raw []byte) error {
	var m richNode
	var w richWriter
	if json.Unmarshal(raw, &m) == nil {
		w.block(m)
	}
	r.text, r.entities = strings.TrimRight(w.text.String(), "\n"), w.entities
	if strings.TrimSpace(r.text) == "" {
		r.text, r.entities = "[Rich message]", nil
	}
	return nil
}

// richNode is a block, a part of one, or a piece of text, which may also be a string or a list.
type richNode struct {
	Type        string
	Text        *richNode
	Expression  string         // in LaTeX
	Alternative string         // of an emoji of somebody's own
	User        *tgbotapi.User // of a mention without a name

	Label, Summary, Caption, Credit *richNode
	Blocks, Items                   []richNode
	Cells                           [][]richNode

	plain string
	list  []richNode
}

func (n *richNode) UnmarshalJSON(raw []byte) error {
	switch raw[0] { // encoding/json hands in no blanks
	case '"':
		return json.Unmarshal(raw, &n.plain)
	case '[':
		return json.Unmarshal(raw, &n.list)
	}
	object := struct {
		Type        *string         `json:"type"`
		Text        **richNode      `json:"text"`
		Expression  *string         `json:"expression"`
		Alternative *string         `json:"alternative_text"`
		User        **tgbotapi.User `json:"user"`
		Label       **richNode      `json:"label"`
		Summary     **richNode      `json:"summary"`
		Caption     **richNode      `json:"caption"`
		Credit      **richNode      `json:"credit"`
		Blocks      *[]richNode     `json:"blocks"`
		Items       *[]richNode     `json:"items"`
		Cells       *[][]richNode   `json:"cells"`
	}{
		&n.Type, &n.Text, &n.Expression, &n.Alternative, &n.User,
		&n.Label, &n.Summary, &n.Caption, &n.Credit, &n.Blocks, &n.Items, &n.Cells,
	}
	return json.Unmarshal(raw, &object)
}

// richWriter collects the text.
type richWriter struct {
	text     strings.Builder
	units    int // of UTF-16, so far
	entities []tgbotapi.MessageEntity
}

func (w *richWriter) write(s string) {
	w.text.WriteString(s)
	w.units += units16(s)
}

// line ends a line that has something in it.
func (w *richWriter) line() {
	if s := w.text.String(); s != "" && !strings.HasSuffix(s, "\n") {
		w.write("\n")
	}
}

// block writes a block, or what consists of blocks.
func (w *richWriter) block(n richNode) {
	w.inline(n.Label)
	if n.Label != nil {
		w.write(" ")
	}
	for _, piece := range []*richNode{n.Summary, n.Text} {
		w.inline(piece)
		if piece != nil {
			w.line()
		}
	}
	w.write(n.Expression)
	for _, row := range n.Cells {
		for i, cell := range row {
			if i > 0 {
				w.write(" | ")
			}
			w.inline(cell.Text)
		}
		w.line()
	}
	for _, inner := range append(n.Items, n.Blocks...) {
		w.block(inner)
	}
	w.line()
	if n.Caption != nil {
		w.block(*n.Caption)
	}
	w.inline(n.Credit)
	w.line()
}

// inline writes a piece of text.
func (w *richWriter) inline(n *richNode) {
	if n == nil {
		return
	}
	from := w.units
	w.write(n.plain + n.Expression + n.Alternative)
	for i := range n.list {
		w.inline(&n.list[i])
	}
	w.inline(n.Text)
	switch n.Type {
	case "mention", "text_mention", "bot_command":
		w.entities = append(w.entities, tgbotapi.MessageEntity{Type: n.Type, Offset: from, Length: w.units - from, User: n.User})
	}
}
