package telegram

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Edit implements platforms.Editor. The first part of a text over the limit replaces the message, and the rest is sent
// as new messages.
func (p *Bot) Edit(ctx context.Context, a relay.Edit) (relay.Result, error) {
	number, ok := messageNumber(a.Message)
	if !ok {
		return relay.Result{}, errUnknownMessage
	}
	l, err := p.letter(a.Content)
	if err != nil {
		return relay.Result{}, err
	}
	l.place = placeOf(relay.Send{Meta: a.Meta})
	l.place.reply, l.place.fallback = "", ""
	a.Message = relay.MessageID(number)
	return p.turns.Edit(ctx, a, l, func(ctx context.Context, t *sender.Turn) error { return l.replace(ctx, t, number) })
}

// replace makes the letter's first part the text of a message. If the message has that text already, replace succeeds.
func (l *letter) replace(ctx context.Context, t *sender.Turn, number string) error {
	for {
		params := l.p.textParams(l.parts[0])
		params["message_id"] = number
		err := l.p.call(ctx, t, "editMessageText", params, nil)
		switch {
		case err == nil || refusedWith(err, "message is not modified"):
			l.next()
			return nil
		case refusedFormat(err) && l.unformat():
		default:
			return err
		}
	}
}

// Delete implements platforms.Deleter. A message that is gone already is success.
func (p *Bot) Delete(ctx context.Context, a relay.Delete) (relay.Result, error) {
	number, ok := messageNumber(a.Message)
	if !ok {
		return relay.Result{}, errUnknownMessage
	}
	t, err := p.turns.Enter(ctx, a.Chat, ratelimit.Signal)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	err = p.call(ctx, t, "deleteMessage", tgbotapi.Params{"message_id": number}, nil)
	if err != nil && !refusedWith(err, "message to delete not found") {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: relay.MessageID(number), MovedTo: t.MovedTo}, nil
}

// React implements platforms.Reacter. A bot has one reaction on a message, which the next one replaces.
func (p *Bot) React(ctx context.Context, a relay.React) (relay.Result, error) {
	number, ok := messageNumber(a.Message)
	if !ok {
		return relay.Result{}, errUnknownMessage
	}
	t, err := p.turns.Signal(ctx, a.Chat)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()

	reaction := "[]"
	if !a.Remove {
		list, _ := json.Marshal([]map[string]string{{"type": "emoji", "emoji": allowed(a.Emoji)}}) // cannot fail
		reaction = string(list)
	}
	err = p.call(ctx, t, "setMessageReaction", tgbotapi.Params{"message_id": number, "reaction": reaction}, nil)
	if httpcall.FaultOf(err).Limited() {
		return relay.Result{}, sender.Dropped(err)
	}
	if err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MessageID: relay.MessageID(number), MovedTo: t.MovedTo}, nil
}

// Reaction implements platforms.Reacter. The result names no emoji, because the bot has only one reaction on a message.
func (p *Bot) Reaction(a relay.React) relay.Reaction {
	number, _ := messageNumber(a.Message)
	n, _ := strconv.ParseInt(number, 10, 64)
	return relay.Reaction{Chat: relay.Chat{Bot: p.ID(), ID: a.Chat}, Message: relay.MessageID(strconv.FormatInt(n, 10))}
}

// typingLasts is the time between two "typing…". Telegram shows one for five seconds; gateways ask every two.
const typingLasts = 4 * time.Second

// Typing implements platforms.Typer. The request is sent at once or not at all, and at most once per topic in
// typingLasts. It names the General topic, too, which a send must not name.
func (p *Bot) Typing(ctx context.Context, a relay.Typing) (relay.Result, error) {
	t, err := p.turns.AtOnce(ctx, a.Chat)
	if t == nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	thread := threadOf(a.Meta)
	if !p.turns.Limiter.Due(a.Chat, "typing in "+thread, typingLasts) {
		return relay.Result{}, nil
	}
	params := tgbotapi.Params{"action": tgbotapi.ChatTyping}
	params.AddNonEmpty("message_thread_id", thread)
	err = p.call(ctx, t, "sendChatAction", params, nil)
	if httpcall.FaultOf(err).Limited() {
		return relay.Result{}, nil
	}
	if err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{MovedTo: t.MovedTo}, nil
}

// ChatInfo implements platforms.ChatInformer. It returns the chat types that events have: a forum is a group.
func (p *Bot) ChatInfo(ctx context.Context, a relay.GetChatInfo) (relay.Result, error) {
	t, err := p.turns.Enter(ctx, a.Chat, ratelimit.Look)
	if err != nil {
		return relay.Result{}, err
	}
	defer t.Leave()
	var c chat
	if err := p.call(ctx, t, "getChat", tgbotapi.Params{}, &c); err != nil {
		return relay.Result{}, explained(err)
	}
	return relay.Result{ChatInfo: &relay.ChatInfo{Name: c.name(), Type: c.kind()}, MovedTo: t.MovedTo}, nil
}

func (p *Bot) WaitOpen(ctx context.Context, chat relay.ChatID) error {
	return p.turns.WaitOpen(ctx, chat)
}

// reactions are the emoji that Telegram lets bots react with (Bot API, ReactionTypeEmoji), as it spells them: without
// variation selectors and skin tones. Those that look alike with and without a selector, and those made of several
// characters, are written as escapes.
const reactions = "\u2764 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 \U0001f54a 🤡 🥱 🥴 😍 🐳 \u2764\u200d\U0001f525 🌚 🌭 💯 🤣 " +
	"\u26a1 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 \U0001f468\u200d\U0001f4bb 👀 🎃 🙈 😇 😨 🤝 \u270d 🤗 🫡 🎅 🎄 \u2603 " +
	"💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 \U0001f937\u200d\u2642 🤷 \U0001f937\u200d\u2640 😡 "

// allowed returns emoji as Telegram spells it, or the reaction that stands for it: gateways up to August 2026 end an
// answer with marks that Telegram does not accept. Any other emoji stays as it is: Telegram refuses it, or accepts it
// because its list has grown.
func allowed(emoji string) string {
	bare := strings.Map(func(r rune) rune {
		if r == '\ufe0e' || r == '\ufe0f' || r >= '\U0001f3fb' && r <= '\U0001f3ff' { // variation selectors, skin tones
			return -1
		}
		return r
	}, emoji)
	if slices.Contains(strings.Fields(reactions), bare) {
		return bare
	}
	switch bare {
	case "\u2705", "\u2714", "\u2611": // ticks
		return "👍"
	case "\u274c", "\u2716": // crosses
		return "👎"
	}
	return emoji
}
