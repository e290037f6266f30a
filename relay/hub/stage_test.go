package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// errNobodyKnows is the answer of a network that cannot say.
var errNobodyKnows = errors.New("nobody knows")

// stage is a bot on a network that exists in one test: it answers as the test's functions do, and
// remembers where it was made to send. A function that is nil knows nothing.
type stage struct {
	bot     relay.Bot
	sees    func(relay.Place, relay.UserID) (bool, error)
	manages func(context.Context, relay.Place, relay.UserID) (bool, error)
	locates func(relay.ChatID) (relay.Place, error)
	whose   func(relay.ChatID) (relay.UserID, bool)
	sent    []relay.ChatID
	away    bool // it takes no message now
	touched int  // messages edited, deleted and reacted to, whoever wrote them
}

// asked is a stage seen as a platform without the abilities that tell a chat by its id.
type asked struct {
	platforms.Bot
	platforms.Roster
	platforms.Editor
	platforms.Deleter
	platforms.Reacter
	platforms.Prompter
	platforms.MediaSender
	platforms.MediaFetcher
}

func (s *stage) ID() relay.Bot                              { return s.bot }
func (s *stage) Descriptor() relay.Descriptor               { return relay.Descriptor{Platform: s.bot.Platform} }
func (s *stage) Status() platforms.Status                   { return platforms.Status{State: platforms.Connected} }
func (s *stage) Run(context.Context, platforms.Inbox) error { return nil }
func (s *stage) Send(_ context.Context, a relay.Send) (relay.Result, error) {
	if s.away {
		return relay.Result{}, relay.Later("the network cannot be reached", nil)
	}
	s.sent = append(s.sent, a.Chat)
	return relay.Result{MessageID: relay.MessageID(fmt.Sprint("m", len(s.sent)))}, nil
}

// Prompt counts as something sent, and its message as one of those.
func (s *stage) Prompt(_ context.Context, a relay.Prompt) (relay.Result, error) {
	s.sent = append(s.sent, a.Chat)
	return relay.Result{MessageID: relay.MessageID(fmt.Sprint("m", len(s.sent)))}, nil
}

// SendMedia counts as something sent.
func (s *stage) SendMedia(_ context.Context, a relay.SendMedia) (relay.Result, error) {
	s.sent = append(s.sent, a.Chat)
	return relay.Result{MessageID: relay.MessageID(fmt.Sprint("m", len(s.sent)))}, nil
}

// FetchMedia opens a file, in which stands what the network calls it.
func (s *stage) FetchMedia(_ context.Context, a relay.Attachment) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(a.Ref)), nil
}

func (s *stage) Unprompt(context.Context, relay.ChatID, relay.MessageID) error { return nil }

func (s *stage) Edit(_ context.Context, a relay.Edit) (relay.Result, error) {
	s.touched++
	return relay.Result{MessageID: a.Message}, nil
}

func (s *stage) Delete(context.Context, relay.Delete) (relay.Result, error) {
	s.touched++
	return relay.Result{}, nil
}

func (s *stage) React(_ context.Context, a relay.React) (relay.Result, error) {
	s.touched++
	return relay.Result{MessageID: a.Message}, nil
}

// Reaction: on "mute" the bot has but one on a message.
func (s *stage) Reaction(a relay.React) relay.Reaction {
	r := relay.Reaction{Chat: relay.Chat{Bot: s.bot, ID: a.Chat}, Message: a.Message, Name: a.Emoji}
	if s.bot.Platform == mute {
		r.Name = ""
	}
	return r
}

func (s *stage) CanSee(_ context.Context, at relay.Place, u relay.UserID) (bool, error) {
	if s.sees == nil {
		return false, errNobodyKnows
	}
	return s.sees(at, u)
}

func (s *stage) CanManage(ctx context.Context, at relay.Place, u relay.UserID) (bool, error) {
	if s.manages == nil {
		return false, errNobodyKnows
	}
	return s.manages(ctx, at, u)
}

func (s *stage) Locate(_ context.Context, chat relay.ChatID) (relay.Place, error) {
	if s.locates == nil {
		return relay.Place{}, errNobodyKnows
	}
	return s.locates(chat)
}

func (s *stage) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	if s.whose == nil {
		return "", false
	}
	return s.whose(chat)
}
