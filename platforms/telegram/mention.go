package telegram

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/telegram/dialect"
)

// cut returns the part of a text, in UTF-16 units, that an entity marks; false if that is empty or not within the text.
func cut(e tgbotapi.MessageEntity, units []uint16) (string, bool) {
	if e.Offset < 0 || e.Length <= 0 || e.Offset > len(units) || e.Length > len(units)-e.Offset {
		return "", false
	}
	return dialect.Decode(units[e.Offset : e.Offset+e.Length]), true
}

// address is to whom a text is spoken.
type address struct {
	me           bool // somebody mentions the bot, or gives it a command
	command      bool // the text begins with a command
	otherCommand bool // the text begins with a command for another bot
}

// addressed returns to whom a text is spoken, according to its entities. A command without "@" is for every bot that
// reads it if the text begins with it; in a direct message it may stand anywhere.
func addressed(text string, entities []tgbotapi.MessageEntity, me identity, direct bool) address {
	a := address{otherCommand: forAnother(text, me)}
	if len(entities) == 0 {
		return a
	}
	units := dialect.Encode(text)
	for _, e := range entities {
		switch e.Type {
		case "mention":
			name, ok := cut(e, units)
			a.me = a.me || ok && me.called(strings.TrimPrefix(name, "@"))
		case "text_mention":
			a.me = a.me || e.User != nil && e.User.ID == me.id
		case "bot_command":
			command, ok := cut(e, units)
			if !ok {
				continue
			}
			_, name, named := strings.Cut(command, "@")
			mine := named && me.called(name) || !named && (direct || e.Offset == 0)
			a.me = a.me || mine
			if e.Offset == 0 {
				a.command = true
				a.otherCommand = named && !mine
			}
		}
	}
	return a
}

// forAnother reports whether text begins with a command that names another bot. Telegram marks only well-formed
// commands; a gateway runs as a command whatever is between the slash and the "@", and ignores the name behind the "@".
func forAnother(text string, me identity) bool {
	word, isCommand := strings.CutPrefix(strings.TrimLeftFunc(text, unicode.IsSpace), "/")
	if !isCommand {
		return false
	}
	if i := strings.IndexFunc(word, unicode.IsSpace); i >= 0 {
		word = word[:i]
	}
	_, name, named := strings.Cut(word, "@")
	isName := name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !isWord(r) })
	return named && isName && !strings.Contains(word, "/") && !me.called(name)
}

// withoutMention removes every mention of the bot from text, with the punctuation and blanks behind it, unless
// nothing would be left. The "@bot" of a command stays, for the gateway removes it.
func withoutMention(text string, me identity) string {
	if me.name == "" || !strings.Contains(text, "@") {
		return text
	}
	var out strings.Builder
	rest, last := text, rune(0)
	found := false
	for rest != "" {
		if after, ok := me.cutMention(rest); ok && !joinsMention(last) {
			found = true
			after = strings.TrimLeft(after, ",:-")
			rest = strings.TrimLeftFunc(after, unicode.IsSpace)
			last = ' '
			continue
		}
		r, size := utf8.DecodeRuneInString(rest)
		out.WriteString(rest[:size])
		rest, last = rest[size:], r
	}
	if !found {
		return text
	}
	return cmp.Or(strings.TrimSpace(out.String()), text)
}

// cutMention removes "@name" from the front of s, unless the letter behind it belongs to a longer name.
func (me identity) cutMention(s string) (rest string, ok bool) {
	n := 1 + len(me.name)
	if len(s) < n || s[0] != '@' || !me.called(s[1:n]) {
		return s, false
	}
	next, _ := utf8.DecodeRuneInString(s[n:])
	if s[n:] != "" && isWord(next) {
		return s, false
	}
	return s[n:], true
}

// joinsMention reports whether an "@" after r belongs to an e-mail address, a path or a command.
func joinsMention(r rune) bool { return isWord(r) || r == '/' || r == '@' || r == '.' }

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// opened reports whether a text comes from opening a deep link: "/start" with a value.
func opened(text string) bool {
	words := strings.Fields(text)
	if len(words) != 2 {
		return false
	}
	name, _, _ := strings.Cut(words[0], "@") // a command for another bot is marked as Traits.OtherCommand
	return strings.EqualFold(name, "/start")
}
