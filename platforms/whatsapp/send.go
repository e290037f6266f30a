package whatsapp

import (
	"context"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// typingLasts is the least time between two typing notices in a chat. WhatsApp shows one for 25 seconds.
const typingLasts = 20 * time.Second

// Send implements platforms.Bot. The first part of the text is the reply.
func (p *Bot) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	l, err := p.letter(a.Content, a.ReplyTo)
	if err != nil {
		return relay.Result{}, err
	}
	if len(l.parts) == 0 {
		return relay.Result{}, errEmpty
	}
	return p.turns.Post(ctx, a.Chat, l)
}

var errEmpty = relay.Refused("the message is empty", nil)

// letter is a text on its way, in parts.
type letter struct {
	p     *Bot
	reply relay.MessageID // the message to which the next part replies; empty: none
	parts []string        // not sent yet
	// below returns the content of the last message of a question: the text body, and the buttons or the list below it.
	// nil: the letter is no question.
	below func(body string) obj
}

// letter renders and cuts a text, which may be empty.
func (p *Bot) letter(content string, reply relay.MessageID) (*letter, error) {
	if markdown.TooLong(content) {
		return nil, relay.Refused("the message is too long", nil)
	}
	return &letter{p: p, reply: reply, parts: parts(render(content), maxText)}, nil
}

// Left implements sender.Text.
func (l *letter) Left() int { return len(l.parts) }

// Skip implements sender.Text.
func (l *letter) Skip(error) bool { return false }

// Send implements sender.Text.
func (l *letter) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	part := l.parts[0]
	kind, content := "text", obj{"body": part, "preview_url": false}
	if l.below != nil && len(l.parts) == 1 {
		kind, content = "interactive", l.below(part)
	}
	id, err := l.post(ctx, t, kind, content)
	if err == nil {
		l.p.remember(id, part)
		l.parts = l.parts[1:]
	}
	return id, err
}

// post posts one message.
func (l *letter) post(ctx context.Context, t *sender.Turn, kind string, content obj) (id relay.MessageID, err error) {
	body := to(t.Chat)
	body["type"], body[kind] = kind, content
	if l.reply != "" {
		body["context"] = obj{"message_id": l.reply}
	}
	err = t.Do(ctx, sender.Call{Do: func(ctx context.Context) (err error) {
		id, err = l.p.message(ctx, body)
		return err
	}})
	if err == nil {
		l.reply = ""
	}
	return id, err
}

// to returns a message to a person, without its content.
func to(chat relay.ChatID) obj {
	m := obj{"messaging_product": "whatsapp", "recipient_type": "individual"}
	if strings.Contains(string(chat), ".") { // the person hides their number
		m["recipient"] = chat
	} else {
		m["to"] = chat
	}
	return m
}

// message posts one message. Its error is an *httpcall.Fault.
func (p *Bot) message(ctx context.Context, body obj) (relay.MessageID, error) {
	var out struct {
		Messages []struct {
			ID relay.MessageID `json:"id"`
		} `json:"messages"`
	}
	if err := p.post(ctx, string(p.bot.ID)+"/messages", body, &out); err != nil {
		return "", err
	}
	if len(out.Messages) == 0 || out.Messages[0].ID == "" {
		return "", &httpcall.Fault{What: "messages", Status: 200, Message: "the answer names no message"}
	}
	return out.Messages[0].ID, nil
}

// React implements platforms.Reacter. The number has one reaction on a message, which the next one replaces.
func (p *Bot) React(ctx context.Context, a relay.React) (relay.Result, error) {
	t, err := p.turns.Signal(ctx, a.Chat)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	emoji := a.Emoji
	if a.Remove {
		emoji = ""
	}
	l := letter{p: p}
	if _, err = l.post(ctx, t, "reaction", obj{"message_id": a.Message, "emoji": emoji}); httpcall.FaultOf(err).Limited() {
		return relay.Result{}, sender.Dropped(err)
	}
	if err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: a.Message}, nil
}

// Reaction implements platforms.Reacter. It does not contain the emoji, because the number has one reaction on a
// message.
func (p *Bot) Reaction(a relay.React) relay.Reaction {
	return relay.Reaction{Chat: relay.Chat{Bot: p.bot, ID: a.Chat}, Message: a.Message}
}

// Typing implements platforms.Typer. It sends a notice at once or not at all, and at most one in typingLasts. The
// notice also marks the person's newest message as read: the API has no other way. If that message is not remembered,
// nothing is sent.
func (p *Bot) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	t, err := p.turns.AtOnce(ctx, a.Chat)
	if t == nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	on, known := p.newest.Get(a.Chat)
	if !known || !p.turns.Limiter.Due(a.Chat, "typing", typingLasts) {
		return relay.Result{}, nil
	}
	body := obj{"messaging_product": "whatsapp", "status": "read", "message_id": on, "typing_indicator": obj{"type": "text"}}
	err = t.Do(ctx, sender.Call{Do: func(ctx context.Context) error { return p.post(ctx, string(p.bot.ID)+"/messages", body, nil) }})
	if err != nil && !httpcall.FaultOf(err).Limited() {
		return relay.Result{}, explained(err)
	}
	return relay.Result{}, nil
}

func (p *Bot) WaitOpen(ctx context.Context, chat relay.ChatID) error {
	return p.turns.WaitOpen(ctx, chat)
}
