package telegram

import (
	"encoding/json"
	"strings"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/telegram/dialect"
)

// richMessage is a message of blocks, which has no text of its own, as plain text: a block is a line, and so is a row of
// a table. Blocks and formats it does not know it reads by the members that all of them share; what makes no sense is
// left out.
type richMessage struct {
	text     string
	entities []tgbotapi.MessageEntity // those that address somebody
}

// UnmarshalJSON never fails: of a message that makes no sense no more is known.
func (r *richMessage) UnmarshalJSON(raw []byte) error {
	var m any
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

// richWriter collects the text of decoded JSON.
type richWriter struct {
	text     strings.Builder
	units    int  // of UTF-16, so far
	open     bool // the line has something in it
	entities []tgbotapi.MessageEntity
}

func (w *richWriter) write(s string) {
	if s != "" {
		w.text.WriteString(s)
		w.units += dialect.Units(s)
		w.open = true
	}
}

func (w *richWriter) line() {
	if w.open {
		w.write("\n")
		w.open = false
	}
}

// block writes a block, several, or a piece of text, and ends the line.
func (w *richWriter) block(v any) {
	switch v := v.(type) {
	case nil:
		return // the line goes on
	case []any:
		for _, inner := range v {
			w.block(inner)
		}
	case map[string]any:
		if label, _ := v["label"].(string); label != "" { // of an item of a list
			w.write(label + " ")
		}
		w.texts(v["summary"], v["text"], v["expression"])
		rows, _ := v["cells"].([]any)
		for _, row := range rows {
			w.row(row)
		}
		w.block(v["items"])
		w.block(v["blocks"])
		if caption, is := v["caption"].(map[string]any); is && caption["type"] == nil {
			w.texts(caption["text"], caption["credit"])
		} else { // a table's
			w.texts(v["caption"])
		}
		w.texts(v["credit"])
	}
	w.line()
}

// texts writes each piece of text as a line.
func (w *richWriter) texts(pieces ...any) {
	for _, piece := range pieces {
		if piece != nil {
			w.inline(piece)
			w.line()
		}
	}
}

// row writes a row of a table as a line.
func (w *richWriter) row(v any) {
	cells, _ := v.([]any)
	for i, cell := range cells {
		if i > 0 {
			w.write(" | ")
		}
		if cell, ok := cell.(map[string]any); ok {
			w.inline(cell["text"])
		}
	}
	w.line()
}

// inline writes a piece of text: a string, a list of pieces, or one with a format.
func (w *richWriter) inline(v any) {
	switch v := v.(type) {
	case string:
		w.write(v)
	case []any:
		for _, piece := range v {
			w.inline(piece)
		}
	case map[string]any:
		from := w.units
		w.inline(v["text"])
		for _, key := range []string{"expression", "alternative_text"} { // of formulas, and of emoji of somebody's own
			s, _ := v[key].(string)
			w.write(s)
		}
		e := tgbotapi.MessageEntity{Offset: from, Length: w.units - from}
		switch e.Type, _ = v["type"].(string); e.Type {
		case "text_mention":
			user, _ := v["user"].(map[string]any)
			id, _ := user["id"].(float64)
			e.User = &tgbotapi.User{ID: int64(id)}
			w.entities = append(w.entities, e)
		case "mention", "bot_command":
			w.entities = append(w.entities, e)
		}
	}
}
