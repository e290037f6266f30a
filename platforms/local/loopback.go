package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// LoopbackID is the platform's name.
	LoopbackID relay.PlatformID = "loopback"
	// Handle is the bot's id and its name on the network: "@loopback" addresses it.
	Handle = "loopback"
	// MaxLength is the longest message, in code points.
	MaxLength = 4096
	// MaxFile is the largest file that the bot may have, in bytes.
	MaxFile = 20 << 20

	directPrefix = "@"
)

var loopbackBot = relay.Bot{Platform: LoopbackID, ID: Handle}

// Loopback is the bot of a Network.
type Loopback struct {
	bot
	net  *Network
	file *follower // nil: driven through the Network only
}

var (
	_ platforms.Bot          = (*Loopback)(nil)
	_ platforms.Editor       = (*Loopback)(nil)
	_ platforms.Typer        = (*Loopback)(nil)
	_ platforms.Reacter      = (*Loopback)(nil)
	_ platforms.Deleter      = (*Loopback)(nil)
	_ platforms.ChatInformer = (*Loopback)(nil)
	_ platforms.Roster       = (*Loopback)(nil)
	_ platforms.Manager      = (*Loopback)(nil)
	_ platforms.Locator      = (*Loopback)(nil)
	_ platforms.DirectChats  = (*Loopback)(nil)
	_ platforms.MediaSender  = (*Loopback)(nil)
	_ platforms.MediaFetcher = (*Loopback)(nil)
	_ platforms.Prompter     = (*Loopback)(nil)
)

// NewLoopback makes the bot of net. A nil log discards.
func NewLoopback(net *Network, log *slog.Logger) *Loopback {
	return &Loopback{bot: newBot(net.network, log), net: net}
}

// Run implements platforms.Bot. It owns the goroutine that follows the file, if there is one.
func (p *Loopback) Run(ctx context.Context, in platforms.Inbox) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if p.file != nil {
		p.status.SetStuck(p.file.blocked(p.file.make())) // before the status can be Connected
		wg.Go(func() { p.file.run(ctx, p.net, in, p.status, p.log) })
	}
	return p.bot.Run(ctx, in)
}

// Unprompt takes the buttons off a message. It succeeds if there are none.
func (p *Loopback) Unprompt(ctx context.Context, chat relay.ChatID, message relay.MessageID) error {
	if p.file != nil { // the bot may have posted the message before a restart
		return p.unprompt(ctx, chat, message)
	}
	return p.bot.Unprompt(ctx, chat, message)
}

// FetchMedia opens a file that somebody showed the bot.
func (p *Loopback) FetchMedia(ctx context.Context, a relay.Attachment) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.net.mu.Lock()
	var fail error
	if fails := p.net.fetchFails; len(fails) > 0 {
		fail, p.net.fetchFails = fails[0], fails[1:]
	}
	p.net.mu.Unlock()
	switch {
	case fail != nil:
		return nil, fail
	case p.file != nil:
		return p.file.open(a.Ref, p.tooLarge())
	}
	return p.bot.FetchMedia(ctx, a)
}

// CanSee reports whether user is a member of the chat, or the person of a direct one.
func (p *Loopback) CanSee(_ context.Context, place relay.Place, user relay.UserID) (bool, error) {
	if who, direct := directUser(place.Chat); direct {
		return who == user, nil
	}
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	return p.net.members[place.Chat][user], nil
}

// Locate returns the place of a chat, which its id names.
func (p *Loopback) Locate(_ context.Context, chat relay.ChatID) (relay.Place, error) {
	if chat == "" {
		return relay.Place{}, errors.New("locate: no chat is named")
	}
	return relay.Place{Platform: LoopbackID, Scope: scopeOf(chat), Chat: chat}, nil
}

// DirectUser returns the person of a direct chat.
func (p *Loopback) DirectUser(chat relay.ChatID) (relay.UserID, bool) { return directUser(chat) }

func directUser(chat relay.ChatID) (relay.UserID, bool) {
	user, ok := strings.CutPrefix(string(chat), directPrefix)
	if !ok || user == "" {
		return "", false
	}
	return relay.UserID(user), true
}

func chatInfo(chat relay.ChatID) relay.ChatInfo {
	if user, direct := directUser(chat); direct {
		return relay.ChatInfo{Name: string(user), Type: relay.ChatDM}
	}
	return relay.ChatInfo{Name: string(chat), Type: relay.ChatGroup}
}

func scopeOf(chat relay.ChatID) relay.ScopeID {
	return relay.ScopeID(chat[:max(strings.Index(string(chat), "/"), 0)])
}

// manager is a person who decides who reads a chat, or all chats of a scope.
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
func (p *Loopback) CanManage(_ context.Context, place relay.Place, user relay.UserID) (bool, error) {
	if _, direct := directUser(place.Chat); direct || place.Chat == "" && place.Scope == "" {
		return false, nil
	}
	if place.Chat != "" && scopeOf(place.Chat) != place.Scope {
		return false, nil // the chat does not exist
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
