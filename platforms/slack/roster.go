package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slack-go/slack"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// errNoPlace: the id is not that of a channel that Slack shows the bot.
var errNoPlace = errors.New("no such channel")

// unknownPerson and unknownChannel are Slack's words for people and channels that it does not show the bot.
var (
	unknownPerson  = []string{"user_not_found", "user_not_visible", "users_not_found"}
	unknownChannel = []string{"channel_not_found", "not_in_channel", "fetch_members_failed", "method_not_supported_for_channel_type"}
)

// roster asks Slack who sees and who manages a channel.
type roster struct {
	*workspace
	team func() relay.ScopeID // the workspace; empty: not known yet
}

// CanSee implements platforms.Roster. A public channel is open to every full member of the workspace. Guests see only
// the channels that they are in, as everybody does with private channels and groups of people; the same holds for
// people of other workspaces with which a channel is shared.
func (r *roster) CanSee(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	sees, err := r.sees(ctx, place, user)
	if err != nil {
		return false, fmt.Errorf("visibility of a channel: %w", muted(err))
	}
	return sees, nil
}

func (r *roster) sees(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	c, err := r.channelAt(ctx, place)
	if c == nil || err != nil {
		return false, err
	}
	if c.IsIM {
		return c.User == string(user), nil
	}
	u, err := r.personBy(ctx, user)
	if u == nil || err != nil || u.Deleted {
		return false, err
	}
	if !c.IsPrivate && !c.IsMpIM && !c.IsGroup && r.full(u) {
		return true, nil
	}
	for page, err := range r.rest.Members(ctx, c.ID) {
		switch {
		case rest.RefusedWith(err, unknownChannel...):
			return false, nil
		case err != nil:
			return false, err
		case slices.Contains(page, string(user)):
			return true, nil
		}
	}
	return false, nil
}

// full reports whether somebody is a full member of the workspace.
func (r *roster) full(u *slack.User) bool {
	return !u.Deleted && !u.IsRestricted && !u.IsUltraRestricted && !u.IsStranger && u.TeamID == string(r.team())
}

// CanManage implements platforms.Manager: the workspace's admins and owners, and a channel's creator while they see it.
// Nobody manages direct messages.
func (r *roster) CanManage(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	manages, err := r.manages(ctx, place, user)
	if err != nil {
		return false, fmt.Errorf("management of a channel: %w", muted(err))
	}
	return manages, nil
}

func (r *roster) manages(ctx context.Context, place relay.Place, user relay.UserID) (bool, error) {
	if place.Chat == "" && (place.Scope == "" || place.Scope != r.team()) {
		return false, nil
	}
	u, err := r.personBy(ctx, user)
	if u == nil || err != nil || u.Deleted {
		return false, err
	}
	rules := r.full(u) && (u.IsAdmin || u.IsOwner || u.IsPrimaryOwner)
	if place.Chat == "" {
		return rules, nil
	}
	c, err := r.channelAt(ctx, place)
	if c == nil || err != nil || c.IsIM || !rules && c.Creator != string(user) {
		return false, err
	}
	return r.sees(ctx, place, user)
}

// channelAt returns the channel at a place; nil: Slack shows the bot none there.
func (r *roster) channelAt(ctx context.Context, place relay.Place) (*slack.Channel, error) {
	if checkChat(place.Chat) != nil || place.Scope != "" && place.Scope != r.team() {
		return nil, nil
	}
	c, err := r.look(ctx, string(place.Chat))
	switch {
	case rest.RefusedWith(err, unknownChannel...):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &c, nil
}

// personBy returns a person; nil: Slack shows the bot nobody with that id.
func (r *roster) personBy(ctx context.Context, user relay.UserID) (*slack.User, error) {
	if checkID(string(user)) != nil {
		return nil, nil
	}
	u, err := r.rest.User(ctx, string(user))
	switch {
	case rest.RefusedWith(err, unknownPerson...):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &u, nil
}

// muted returns err; if Slack wants a pause, it adds a platforms.MutedError with the time at which to ask again.
func muted(err error) error {
	if f := httpcall.FaultOf(err); f.RetryAfter > 0 {
		return errors.Join(err, &platforms.MutedError{Until: time.Now().Add(f.RetryAfter)})
	}
	return err
}

// Locate implements platforms.Locator. All that a bot sees lies in its workspace.
func (r *roster) Locate(ctx context.Context, chat relay.ChatID) (relay.Place, error) {
	c, err := r.channelAt(ctx, relay.Place{Platform: Name, Chat: chat})
	if err == nil && (c == nil || r.team() == "") {
		err = errNoPlace
	}
	if err != nil {
		return relay.Place{}, fmt.Errorf("place of a channel: %w", err)
	}
	return relay.Place{Platform: Name, Scope: r.team(), Chat: chat}, nil
}

// MessageEvent implements platforms.MessageEventer.
func (r *roster) MessageEvent(chat relay.ChatID, message relay.MessageID) relay.EventID {
	return eventID(string(chat), string(message))
}
