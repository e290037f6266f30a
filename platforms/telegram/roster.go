package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

// CanSee implements platforms.Roster. A private chat has the id of its one user. For other chats it asks Telegram,
// whose answer is certain only where the bot is an administrator. If Telegram refuses, the answer is no: the list of
// members is hidden, the chat or user does not exist, or the bot was removed.
func (p *Bot) CanSee(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	where, who, err := parseIDs(place.Chat, user)
	switch {
	case err != nil:
		return false, err
	case who <= 0: // a channel or a group that writes in its own name: no person
		return false, nil
	case where > 0:
		return where == who, nil
	}
	m, err := p.member(ctx, place.Chat, user)
	if refusedForGood(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("visibility of a chat: %w", err)
	}
	switch m.Status {
	case "creator", "administrator", "member":
		return true, nil
	case "restricted": // restrictions stay when a member leaves
		return m.IsMember, nil
	case "left", "kicked":
		return false, nil
	}
	return false, fmt.Errorf("visibility of a chat: membership %q is unknown here", m.Status)
}

// CanManage implements platforms.Manager: a chat's creator and its administrators. Telegram has no scopes.
func (p *Bot) CanManage(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	where, who, err := parseIDs(place.Chat, user)
	if err != nil || who <= 0 || where > 0 || place.Scope != "" {
		return false, err
	}
	m, err := p.member(ctx, place.Chat, user)
	if err != nil {
		return false, fmt.Errorf("management of a chat: %w", err)
	}
	return m.Status == "creator" || m.Status == "administrator", nil
}

// parseIDs reads a chat's and a user's id.
func parseIDs(chat relay.ChatID, user relay.UserID) (where, who int64, err error) {
	if who, err = strconv.ParseInt(string(user), 10, 64); err != nil {
		return 0, 0, fmt.Errorf("user id: %w", err)
	}
	if where, err = strconv.ParseInt(string(chat), 10, 64); err != nil {
		return 0, 0, fmt.Errorf("chat id: %w", err)
	}
	return where, who, nil
}

// member asks Telegram for a user's membership of a chat; if the chat has moved, under its new id.
func (p *Bot) member(ctx context.Context, chat relay.ChatID, user relay.UserID) (m member, err error) {
	m, err = p.memberIn(ctx, chat, user)
	if to := movedTo(err); to != 0 {
		m, err = p.memberIn(ctx, chatID(to), user)
	}
	return m, err
}

// memberIn asks for the membership under that id, unless Telegram wants no calls now.
func (p *Bot) memberIn(ctx context.Context, chat relay.ChatID, user relay.UserID) (m member, err error) {
	switch until, bot := p.turns.Limiter.Ask(chat); {
	case bot:
		return m, &platforms.MutedError{Until: until}
	case !until.IsZero():
		return m, fmt.Errorf("silence: Telegram wants no look-up in this chat before %s", until.UTC().Format(time.RFC3339))
	}
	err = p.client.call(ctx, "getChatMember", tgbotapi.Params{
		"chat_id": string(chat), "user_id": string(user),
	}, &m)
	p.turns.Heed(ctx, chat, ratelimit.Look, err)
	return m, err
}

// Locate implements platforms.Locator from the id alone: a chat lies in no scope, and a topic has its chat's id.
func (p *Bot) Locate(_ context.Context, chat relay.ChatID) (relay.Place, error) {
	id, err := strconv.ParseInt(string(chat), 10, 64)
	if err != nil || id == 0 || strconv.FormatInt(id, 10) != string(chat) {
		return relay.Place{}, errors.New("chat id: not one of Telegram's")
	}
	return relay.Place{Platform: Name, Chat: chat}, nil
}

// DirectUser implements platforms.DirectChats: a private chat has the id of its user.
func (p *Bot) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	id, err := strconv.ParseInt(string(chat), 10, 64)
	if err != nil || id <= 0 {
		return "", false
	}
	return relay.UserID(chat), true
}

// DeepLink implements platforms.DeepLinker: Telegram sends the bot "/start CODE".
func (p *Bot) DeepLink(code string) (string, bool) {
	name := p.status.Get().Name
	if name == "" {
		return "", false
	}
	return "https://t.me/" + name + "?start=" + url.QueryEscape(strings.TrimSpace(code)), true
}
