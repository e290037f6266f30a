package telegram

import (
	"context"
	"encoding/json"
	"strconv"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/telegram/dialect"
	"github.com/hermes-connector/hermes-connector/relay"
)

// generalTopic is a forum's first topic. It has an id, but a send that names it is refused.
const generalTopic = "1"

// Send implements platforms.Bot. The first part of the text is the reply. If the message or the topic is gone, the text
// goes into the chat itself. If Telegram does not accept the formats, the rest of the text is sent as it was written.
func (p *Bot) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	l.place = placeOf(a)
	return p.turns.Post(ctx, a.Chat, l)
}

// letter is a text that is being sent, in parts. It is a sender.Text.
type letter struct {
	p      *Bot
	place  place
	source string // as the gateway wrote it
	whole  dialect.Rich
	parts  []dialect.Part // not sent yet
	begun  bool           // parts were sent
	plain  bool           // the formats were refused
	// buttons is the reply_markup of the last part; empty: none.
	buttons string
}

// letter renders and cuts a text. Only one long text at a time is rendered, because that takes many times the text's
// size in memory.
func (p *Bot) letter(content string) (*letter, error) {
	if markdown.TooLong(content) {
		return nil, errTooLong
	}
	if len(content) > markdown.Short {
		p.cutting.Lock()
		defer p.cutting.Unlock()
	}
	l := &letter{p: p, source: markdown.Clean(content)}
	l.whole = dialect.Render(l.source)
	l.parts = dialect.Split(l.whole, dialect.MaxText)
	if len(l.parts) == 0 {
		return nil, errEmpty
	}
	return l, nil
}

// next goes on to the part after the one that was sent.
func (l *letter) next() { l.parts, l.begun = l.parts[1:], true }

// unformat turns the parts that are not sent into the original text. It reports false if formats cannot be the fault.
func (l *letter) unformat() bool {
	if l.plain || len(l.parts[0].Entities) == 0 {
		return false
	}
	l.plain = true
	from := 0
	if l.begun {
		from = l.whole.SourceAt(l.source, l.parts[0].At)
	}
	if again := dialect.Split(dialect.Plain(l.source[from:]), dialect.MaxText); len(again) > 0 {
		l.parts = again
		return true
	}
	return false
}

// place is where in a chat a message is sent (its topic, the message it replies to), and whether it is silent.
type place struct {
	thread   string
	reply    string // message number
	fallback string // the message number to reply to when the thread is refused
	silent   bool
}

// placeOf reads the gateway's hints. Silent are only messages that a gateway marks as being about its own state: older
// gateways leave "notify" out of cron messages, too, which should notify people.
func placeOf(a relay.Send) place {
	m := a.Meta
	pl := place{thread: threadOf(m), silent: m.NonConversational && !m.Notify}
	if pl.thread == generalTopic {
		pl.thread = ""
	}
	first := func(ids ...relay.MessageID) string {
		for _, id := range ids {
			if n, ok := messageNumber(id); ok {
				return n
			}
		}
		return ""
	}
	pl.reply = first(a.ReplyTo)
	if pl.reply == "" && m.DMTopicReplyFallback {
		pl.reply = first(m.TelegramReplyTo)
	}
	pl.fallback = first(a.ReplyTo, m.TelegramReplyTo, m.ReplyToMessageID)
	return pl
}

// into adds the place to the parameters of a message.
func (pl place) into(params tgbotapi.Params) {
	params.AddNonEmpty("message_thread_id", pl.thread)
	params.AddBool("disable_notification", pl.silent)
	if pl.reply != "" { // a reply if the message still exists
		params["reply_parameters"] = `{"message_id":` + pl.reply + `,"allow_sending_without_reply":true}`
	}
}

// tried forgets the message to reply to after a message was sent, because only the first one is a reply, and after the
// chat has moved, because the message to reply to stayed in the old chat.
func (pl *place) tried(t *sender.Turn, err error) {
	if err == nil || t.MovedTo != "" {
		pl.reply, pl.fallback = "", ""
	}
}

// mend removes from the place the part that Telegram refused. It reports whether there was one.
func (pl *place) mend(err error) bool {
	switch {
	case pl.thread != "" && refusedThread(err):
		pl.thread, pl.reply = "", pl.fallback
	case pl.reply != "" && refusedReply(err):
		pl.reply = ""
	default:
		return false
	}
	return true
}

// threadOf returns the topic that a gateway named, if any. That of a private chat may come as a hint.
func threadOf(m relay.Metadata) string {
	for _, id := range []relay.ThreadID{m.ThreadID, m.DMTopicID} {
		if n, err := strconv.ParseInt(string(id), 10, 64); err == nil && n > 0 {
			return string(id)
		}
	}
	return ""
}

// Left implements sender.Text.
func (l *letter) Left() int { return len(l.parts) }

// Skip implements sender.Text. A part with buttons is never dropped.
func (l *letter) Skip(err error) bool {
	if !refusedEmpty(err) || l.buttons != "" && len(l.parts) == 1 {
		return false
	}
	l.next()
	return true
}

// Send implements sender.Text.
func (l *letter) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	for {
		params := l.p.textParams(l.parts[0])
		l.place.into(params)
		if len(l.parts) == 1 {
			params.AddNonEmpty("reply_markup", l.buttons)
		}
		var m message
		err := l.p.call(ctx, t, "sendMessage", params, &m)
		l.place.tried(t, err)
		switch {
		case err == nil:
			if l.next(); m.ID == 0 {
				return "", nil
			}
			return messageID(m.ID), nil
		case l.place.mend(err), refusedFormat(err) && l.unformat():
		default:
			return "", err
		}
	}
}

// textParams returns the parameters of a message with a part's text. They switch link previews off if the operator does
// not allow them for its links.
func (p *Bot) textParams(part dialect.Part) tgbotapi.Params {
	params := tgbotapi.Params{"text": part.Text}
	var links []string
	for _, e := range part.Entities {
		if e.URL != "" {
			links = append(links, e.URL)
		}
	}
	if !p.previews.Allow(part.Text, links...) {
		params["link_preview_options"] = `{"is_disabled":true}`
	}
	params.AddNonEmpty("entities", entitiesOf(part))
	return params
}

// entitiesOf returns the formats of a part as a parameter; empty if it has none.
func entitiesOf(part dialect.Part) string {
	if len(part.Entities) == 0 {
		return ""
	}
	list, _ := json.Marshal(part.Entities) // strings and numbers: cannot fail
	return string(list)
}

// call calls one method on the turn's chat, under the chat's new id if it has moved. A call whose outcome is unknown is
// not repeated: the Bot API has no keys that would make this harmless. If out is a *message, the call sends a message
// of the bot.
func (p *Bot) call(ctx context.Context, t *sender.Turn, method string, params tgbotapi.Params, out any) error {
	err := p.inChat(ctx, t, params, func(ctx context.Context) error { return p.client.call(ctx, method, params, out) })
	if m, said := out.(*message); said && err == nil {
		p.history.spoke(t.Chat, m)
	}
	return err
}

// inChat is call for a request that the function once sends, with params.
func (p *Bot) inChat(ctx context.Context, t *sender.Turn, params tgbotapi.Params, once func(context.Context) error) error {
	do := sender.Call{Do: func(ctx context.Context) error {
		params["chat_id"] = string(t.Chat)
		return once(ctx)
	}}
	err := t.Do(ctx, do)
	to := movedTo(err)
	if to != 0 && t.MovedTo == "" && params["message_id"] == "" {
		delete(params, "reply_parameters") // as with message_id: the message stayed in the old chat
		if err := t.Move(ctx, chatID(to)); err != nil {
			return err
		}
		err = t.Do(ctx, do)
	}
	return err
}
