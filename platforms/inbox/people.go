package inbox

import (
	"context"
	"errors"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// People is a network in which every chat belongs to one person, whose id the chat's id contains. Nobody else sees the
// chat, and the network need not be asked about it.
type People struct {
	Platform relay.PlatformID
	// With returns the person of a chat; ok is false if it is not a chat of this bot.
	With func(relay.ChatID) (relay.UserID, bool)
}

var (
	_ platforms.ChatInformer = People{}
	_ platforms.DirectChats  = People{}
	_ platforms.Locator      = People{}
	_ platforms.Roster       = People{}
)

var errNoChat = errors.New("no chat of this bot")

// DirectUser implements platforms.DirectChats.
func (p People) DirectUser(chat relay.ChatID) (relay.UserID, bool) { return p.With(chat) }

// CanSee implements platforms.Roster.
func (p People) CanSee(_ context.Context, place relay.Place, user relay.UserID) (bool, error) {
	who, ok := p.With(place.Chat)
	return ok && who == user, nil
}

// Locate implements platforms.Locator.
func (p People) Locate(_ context.Context, chat relay.ChatID) (relay.Place, error) {
	if _, ok := p.With(chat); !ok {
		return relay.Place{}, errNoChat
	}
	return relay.Place{Platform: p.Platform, Chat: chat}, nil
}

// ChatInfo implements platforms.ChatInformer.
func (p People) ChatInfo(_ context.Context, a relay.GetChatInfo) (relay.Result, error) {
	return relay.Result{ChatInfo: &relay.ChatInfo{Name: string(a.Chat), Type: relay.ChatDM}}, nil
}

// CheckChat refuses an action if the id is not a chat of this bot, before the network is asked.
func (p People) CheckChat(chat relay.ChatID) error {
	if _, ok := p.With(chat); !ok {
		return relay.Gone("", nil)
	}
	return nil
}
