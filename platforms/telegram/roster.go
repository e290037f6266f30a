package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"github.com/hermes-connector/hermes-connector/relay"
)

// CanSee implements platforms.Roster. A private chat has the id of its one user. For others
// Telegram is asked; it answers reliably about anybody only where the bot is an administrator,
// and about itself and those who wrote elsewhere. Not known is an error.
func (p *Platform) CanSee(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	who, err := strconv.ParseInt(string(user), 10, 64)
	if err != nil {
		return false, fmt.Errorf("user id: %w", err)
	}
	where, err := strconv.ParseInt(string(place.Chat), 10, 64)
	if err != nil {
		return false, fmt.Errorf("chat id: %w", err)
	}
	if who <= 0 { // a channel or a group that writes in its own name is nobody's eyes
		return false, nil
	}
	if where > 0 {
		return where == who, nil
	}
	if p.gate.Closed(place.Chat) {
		return false, errors.New("visibility of a chat: Telegram asked for silence")
	}
	var m member
	err = p.client.call(ctx, "getChatMember", tgbotapi.Params{
		"chat_id": string(place.Chat), "user_id": string(user),
	}, &m)
	if err != nil {
		var ae *apiError
		if errors.As(err, &ae) {
			p.gate.Penalise(place.Chat, ae.RetryAfter)
		}
		return false, fmt.Errorf("visibility of a chat: %w", err)
	}
	switch m.Status {
	case "creator", "administrator", "member":
		return true, nil
	case "restricted": // may have left, restrictions stay
		return m.IsMember, nil
	case "left", "kicked":
		return false, nil
	}
	return false, fmt.Errorf("visibility of a chat: membership %q is unknown here", m.Status)
}

// DirectUser implements platforms.DirectChats.
func (p *Platform) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	id, err := strconv.ParseInt(string(chat), 10, 64)
	if err != nil || id <= 0 {
		return "", false
	}
	return relay.UserID(chat), true
}

// DeepLink implements platforms.DeepLinker: Telegram sends the bot "/start CODE".
func (p *Platform) DeepLink(code string) (string, bool) {
	name := p.board.read().Name
	if name == "" {
		return "", false
	}
	return "https://t.me/" + name + "?start=" + url.QueryEscape(strings.TrimSpace(code)), true
}
