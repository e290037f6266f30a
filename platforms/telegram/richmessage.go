package telegram

import (
	"encoding/json"
	"strings"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/telegram/dialect"
)

// richMessage is a message of blocks, turned into plain text: a line for each block and for each row of a table. Of
// unknown blocks and formats it reads the members that all of them share, and leaves out what it cannot read.
type richMessage struct {
	text     string
	entities []tgbotapi.MessageEntity // those that mention somebody
}

// UnmarshalJSON never fails: a message that it cannot read becomes "[Rich message]".
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

// richWriter writes the text of decoded JSON.
type richWriter struct {
	text     strings.Builder
	units    int  // UTF-16 units written so far
	open     bool // the current line is not empty
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

// block writes one block, a list of blocks or a piece of text, and ends the line.
func (w *richWriter) block(v any) {
	switch v := v.(type) {
	case nil:
		return // the line continues
	case []any:
		for _, inner := range v {
			w.block(inner)
		}
	case map[string]any:
		if label, _ := v["label"].(string); label != "" { // the label of a list item
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
		} else { // the caption of a table
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
		for _, key := range []string{"expression", "alternative_text"} { // of formulas, and of custom emoji
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
