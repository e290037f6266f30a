package signal

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/markdown"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// typingEvery is the least time between two typing notices. Signal shows one for fifteen seconds.
const typingEvery = 8 * time.Second

// Send implements platforms.Bot. Only the first part of a long text replies to a message.
func (p *Bot) Send(ctx context.Context, a relay.Send) (relay.Result, error) {
	l, err := p.letter(a.Content, a.ReplyTo)
	if err != nil {
		return relay.Result{}, err
	}
	if len(l.parts) == 0 {
		return relay.Result{}, relay.Refused("the message is empty", nil)
	}
	return p.turns.Post(ctx, a.Chat, l)
}

// letter is a text on its way, in parts.
type letter struct {
	p     *Bot
	reply relay.MessageID // the message to which the next part replies; empty: none
	parts []styled        // not sent yet
}

// letter renders and cuts a text, which may be empty.
func (p *Bot) letter(content string, reply relay.MessageID) (*letter, error) {
	if markdown.TooLong(content) {
		return nil, relay.Refused("the message is too long", nil)
	}
	return &letter{p: p, reply: reply, parts: parts(content)}, nil
}

// Left implements sender.Text.
func (l *letter) Left() int { return len(l.parts) }

// Skip implements sender.Text.
func (l *letter) Skip(error) bool { return false }

// Send implements sender.Text.
func (l *letter) Send(ctx context.Context, t *sender.Turn) (relay.MessageID, error) {
	ps := l.params(t.Chat)
	l.addPart(ps)
	id, err := l.post(ctx, t, func(ctx context.Context, out *sent) error { return l.p.daemon.call(ctx, "send", ps, out) })
	if err == nil {
		l.p.remember(t.Chat, id, l.parts[0].text)
		l.parts = l.parts[1:]
	}
	return id, err
}

// params returns the parameters of a message without its text: its chat, and the message that it quotes.
func (l *letter) params(chat relay.ChatID) params {
	ps := l.p.to(chat)
	if author, at, ok := parseMessage(l.reply); ok {
		said, _ := l.p.said.Get(messageIn{chat, l.reply})
		ps["quoteAuthor"], ps["quoteTimestamp"], ps["quoteMessage"] = author, at, said
	}
	return ps
}

// addPart adds the next part of the text to the parameters of a message.
func (l *letter) addPart(ps params) {
	ps["message"] = l.parts[0].text
	if len(l.parts[0].styles) > 0 {
		ps["textStyle"] = l.parts[0].styles
	}
}

// sent is the answer to a message.
type sent struct {
	At      int64        `json:"timestamp"`
	Results []sendResult `json:"results"`
}

var errNoMessage = &httpcall.Fault{What: "send", Status: 200, Message: "the answer names no message"}

// post sends one message: do makes the call, and post judges its answer. It notes whether Signal wants a captcha.
func (l *letter) post(ctx context.Context, t *sender.Turn, do func(context.Context, *sent) error) (relay.MessageID, error) {
	var res sent
	err := t.Do(ctx, sender.Call{Do: func(ctx context.Context) error {
		err := do(ctx, &res)
		if err == nil {
			err = judged(&httpcall.Fault{What: "send"}, res.Results)
		}
		if wanted := httpcall.FaultOf(err).Detail == wantsProof; wanted || err == nil {
			l.p.captcha.Store(wanted)
		}
		return err
	}})
	if err == nil && res.At <= 0 {
		err = errNoMessage
	}
	if err != nil {
		return "", err
	}
	l.reply = ""
	id := messageID(l.p.account, res.At)
	l.p.spoke.Put(res.At, true)
	return id, nil
}

// to returns the parameters that name a chat. A chat with a phone number is addressed by its person's account: the
// number may belong to somebody else by now.
func (p *Bot) to(chat relay.ChatID) params {
	if id, ok := groupIn(chat); ok {
		return params{"groupId": id}
	}
	recipient := string(chat)
	if who, _ := p.DirectUser(chat); who != "" && recipient != p.account {
		recipient = string(who)
	}
	return params{"recipient": []string{recipient}}
}

var errUnknownMessage = relay.Refused("message not found", nil)

// act calls a method that changes something in a chat, and may be repeated.
func (p *Bot) act(ctx context.Context, t *sender.Turn, method string, ps params) error {
	return t.Do(ctx, sender.Call{Again: true, Do: func(ctx context.Context) error {
		var res sent
		if err := p.daemon.call(ctx, method, ps, &res); err != nil {
			return err
		}
		return judged(&httpcall.Fault{What: method}, res.Results)
	}})
}

// React implements platforms.Reacter. The account has one reaction on a message; the next one replaces it.
func (p *Bot) React(ctx context.Context, a relay.React) (relay.Result, error) {
	author, at, ok := parseMessage(a.Message)
	if !ok {
		return relay.Result{}, errUnknownMessage
	}
	t, err := p.turns.Signal(ctx, a.Chat)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	ps := p.to(a.Chat)
	ps["emoji"], ps["targetAuthor"], ps["targetTimestamp"] = a.Emoji, author, at
	if a.Remove {
		ps["remove"] = true
	}
	if err = p.act(ctx, t, "sendReaction", ps); httpcall.FaultOf(err).Limited() {
		return relay.Result{}, sender.Dropped(err)
	}
	if err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: a.Message}, nil
}

// Reaction implements platforms.Reacter. It does not contain the emoji, since a person has one reaction on a message.
func (p *Bot) Reaction(a relay.React) relay.Reaction {
	return relay.Reaction{Chat: relay.Chat{Bot: p.bot, ID: a.Chat}, Message: a.Message}
}

// Delete implements platforms.Deleter. It deletes one of the account's own messages, for everybody who sees it.
func (p *Bot) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	author, at, ok := parseMessage(a.Message)
	if !ok {
		return relay.Result{}, errUnknownMessage
	}
	if author != p.account {
		return relay.Result{}, relay.Refused("on Signal a bot deletes its own messages only", nil)
	}
	t, err := p.turns.Enter(ctx, a.Chat, ratelimit.Signal)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	ps := p.to(a.Chat)
	ps["targetTimestamp"] = at
	if err := p.act(ctx, t, "remoteDelete", ps); err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: a.Message}, nil
}

// Typing implements platforms.Typer. It sends a notice at once or not at all, and at most one in typingEvery.
func (p *Bot) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	t, err := p.turns.AtOnce(ctx, a.Chat)
	if t == nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	if string(a.Chat) == p.account || !p.turns.Limiter.Due(a.Chat, "typing", typingEvery) { // nobody types to themselves
		return relay.Result{}, nil
	}
	if err := p.act(ctx, t, "sendTyping", p.to(a.Chat)); err != nil && !httpcall.FaultOf(err).Limited() {
		return relay.Result{}, explained(err)
	}
	return relay.Result{}, nil
}

// ChatInfo implements platforms.ChatInformer.
func (p *Bot) ChatInfo(ctx context.Context, a relay.GetChatInfo) (relay.Result, error) {
	t, err := p.turns.Enter(ctx, a.Chat, ratelimit.Look)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	info := &relay.ChatInfo{Type: relay.ChatDM}
	err = t.Do(ctx, sender.Call{Again: true, Do: func(ctx context.Context) error {
		id, shared := groupIn(a.Chat)
		if !shared {
			err := p.load(ctx, string(a.Chat))
			who, _ := p.DirectUser(a.Chat)
			info.Name = p.called(string(who), strings.TrimPrefix(string(a.Chat), string(who)))
			return err
		}
		g, err := p.group(ctx, id)
		if err == nil && g.ID == "" {
			err = errNoGroup
		}
		info.Name, info.Type = g.Name, relay.ChatGroup
		return err
	}})
	if errors.Is(err, errNoGroup) {
		return relay.Result{}, relay.Gone("", err)
	}
	if err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{ChatInfo: info}, nil
}

var errNoGroup = errors.New("the daemon does not know the group")

func (p *Bot) WaitOpen(ctx context.Context, chat relay.ChatID) error {
	return p.turns.WaitOpen(ctx, chat)
}
