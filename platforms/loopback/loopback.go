// Package loopback is a platform in memory: a Network of people and chats, and a Platform, the bot on it. Tests and
// `hermes-connector demo` talk through it; a configured bot is driven by lines in a file (see Kind). Over a restart of
// the process nothing is kept but how far the file was read.
//
// A chat's id says what it is: "@ann" are Ann's direct messages with the bot, "garden" is a shared chat, "park/garden"
// one inside the scope "park". Among managers, "park/" is the whole scope.
//
// Invariants, beside those of package platforms:
//
//  1. What was said stays in the network, in order, until the Inbox accepted it, also over a new
//     Platform on the same Network.
//  2. What the bot did stands in the network before its method returned.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// ID is the platform's name.
	ID relay.PlatformID = "loopback"
	// Handle is the bot's id and its name on the network: "@loopback" addresses it.
	Handle = "loopback"
	// MaxLength is the longest message, in code points.
	MaxLength = 4096

	directPrefix = "@"
	// firstRetry and lastRetry bound the pause after a refused batch.
	firstRetry, lastRetry = 50 * time.Millisecond, time.Second
)

// Platform is the bot.
type Platform struct {
	// Set once, by New and Kind.Open.
	net    *Network
	log    *slog.Logger
	file   *follower // nil: driven through the Network only
	status *status.Tracker
}

var (
	_ platforms.Platform     = (*Platform)(nil)
	_ platforms.Editor       = (*Platform)(nil)
	_ platforms.Typer        = (*Platform)(nil)
	_ platforms.Reacter      = (*Platform)(nil)
	_ platforms.Deleter      = (*Platform)(nil)
	_ platforms.ChatInformer = (*Platform)(nil)
	_ platforms.Roster       = (*Platform)(nil)
	_ platforms.Manager      = (*Platform)(nil)
	_ platforms.Locator      = (*Platform)(nil)
	_ platforms.DirectChats  = (*Platform)(nil)
	_ platforms.MediaSender  = (*Platform)(nil)
	_ platforms.MediaFetcher = (*Platform)(nil)
	_ platforms.Prompter     = (*Platform)(nil)
)

// New makes the bot of net. A nil log discards.
func New(net *Network, log *slog.Logger) *Platform {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Platform{net: net, log: log, status: status.New(Handle)}
}

// Bot is always loopback:loopback.
func (p *Platform) Bot() relay.Bot { return bot }

var bot = relay.Bot{Platform: ID, ID: Handle}

// Descriptor is what the network can do.
func (p *Platform) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform: ID, Label: Kind.Label, MaxMessageLength: MaxLength, LenUnit: relay.LenChars,
		MarkdownDialect: "markdown",
	}
}

// Status is the state of the connection.
func (p *Platform) Status() platforms.Status { return p.status.Get() }

// Run hands in what is said until ctx ends or the network revokes the bot. It owns the goroutine
// that follows the file, when there is one.
func (p *Platform) Run(ctx context.Context, in platforms.Inbox) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if p.file != nil {
		p.status.SetStuck(p.file.blocked(p.file.make())) // before anybody takes it for connected
		wg.Go(func() { p.file.run(ctx, p.net, in, p.status, p.log) })
	}
	pause := backoff.Backoff{First: firstRetry, Max: lastRetry}
	for drops := -1; ; {
		n := p.net
		n.mu.Lock()
		changed := n.changed // taken before looking, so a change while looking is not missed
		dropped, revoked := drops != n.drops, n.revoked
		drops = n.drops
		var next platforms.Batch
		waiting := len(n.queue) > 0
		if waiting {
			next = n.queue[0].batch
			next.Refused = p.refused(next.Events)
			next.Events = slices.Clone(next.Events) // whoever takes them may change them
		}
		n.mu.Unlock()

		switch {
		case ctx.Err() != nil:
			p.status.Set(platforms.Stopped, "shut down")
			return nil
		case revoked:
			p.status.Set(platforms.BadCredentials, "the network revoked the bot")
			return fmt.Errorf("loopback: %w", relay.ErrBadCredentials)
		case dropped:
			p.status.Set(platforms.Connecting, "connecting")
			p.log.Debug("connected", "drops", drops)
			p.status.Set(platforms.Connected, "")
		case waiting:
			p.status.EventReceived()
			err := in.Accept(ctx, next)
			if err == nil {
				n.accepted()
				pause.Reset()
			} else if ctx.Err() == nil { // what is said meanwhile does not shorten the pause
				d := pause.Next()
				p.log.Warn("event not accepted; handing it in again", "in", d, "err", err)
				backoff.Pause(ctx, d)
			}
		default:
			select {
			case <-ctx.Done():
			case <-changed:
			}
		}
	}
}

// CanSee reports whether user is a member of the chat, or the person of a direct one.
func (p *Platform) CanSee(_ context.Context, place relay.Place, user relay.UserID) (bool, error) {
	if who, direct := directUser(place.Chat); direct {
		return who == user, nil
	}
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	return p.net.members[place.Chat][user], nil
}

// Locate reads off a chat's id where it stands.
func (p *Platform) Locate(_ context.Context, chat relay.ChatID) (relay.Place, error) {
	if chat == "" {
		return relay.Place{}, errors.New("locate: no chat is named")
	}
	return relay.Place{Platform: ID, Scope: scopeOf(chat), Chat: chat}, nil
}

// DirectUser tells whose direct messages chat is.
func (p *Platform) DirectUser(chat relay.ChatID) (relay.UserID, bool) { return directUser(chat) }

func directUser(chat relay.ChatID) (relay.UserID, bool) {
	user, ok := strings.CutPrefix(string(chat), directPrefix)
	if !ok || user == "" {
		return "", false
	}
	return relay.UserID(user), true
}

func scopeOf(chat relay.ChatID) relay.ScopeID {
	return relay.ScopeID(chat[:max(strings.Index(string(chat), "/"), 0)])
}

// manager is somebody who decides who reads a chat, or all chats of a scope.
type manager struct {
	user relay.UserID
	chat relay.ChatID // "park/" is the scope park
}

// Appoint makes user the manager of a shared chat, or with "park/" of the scope park and all its chats.
func (n *Network) Appoint(chat relay.ChatID, user relay.UserID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.managers = append(n.managers, manager{user, chat})
}

// CanManage reports whether user was made the manager of the place, by Appoint or in the file.
func (p *Platform) CanManage(_ context.Context, place relay.Place, user relay.UserID) (bool, error) {
	if _, direct := directUser(place.Chat); direct || place.Chat == "" && place.Scope == "" {
		return false, nil
	}
	if place.Chat != "" && scopeOf(place.Chat) != place.Scope {
		return false, nil // there is no such chat
	}
	p.net.mu.Lock()
	all := slices.Clone(p.net.managers)
	p.net.mu.Unlock()
	if p.file != nil {
		more, err := p.file.managers()
		if err != nil {
			return false, fmt.Errorf("managers: %w", err)
		}
		all = append(all, more...)
	}
	return slices.ContainsFunc(all, func(m manager) bool {
		return m.user == user && (m.chat == place.Chat || place.Scope != "" && m.chat == relay.ChatID(place.Scope)+"/")
	}), nil
}
