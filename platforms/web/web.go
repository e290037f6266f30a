// Package web is a chat network in memory, for one person: whoever is logged in at this program's own pages. Each
// gateway has a room, and in it that person and the bot. It shows that a gateway works before there is any bot.
//
// A chat's id and the person's id in it are both the name of the gateway's instance, so that whom a message is for can
// be read off where it was said; whoever offers the room binds that id to that instance.
//
// Invariants, beside those of package platforms:
//
//  1. Nothing that is said here is on a disk, but what the Inbox stores. A restart empties the rooms.
//  2. No id comes back after a restart with another meaning.
//  3. Each room has bounds, of its messages and of its files: the oldest go first. What is said in one room takes
//     nothing from another.
package web

import (
	"context"
	"log/slog"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// ID is the platform's name.
	ID relay.PlatformID = "web"
	// Handle is the bot's id. It has no name beside the network's.
	Handle = "web"
	// MaxLength is the longest message, in code points.
	MaxLength = 16_000

	// firstRetry and lastRetry bound the pause after a refused batch.
	firstRetry, lastRetry = 50 * time.Millisecond, time.Second
)

// Kind is how the program lists this network. It is no kind for [[bots]]: [web] has one bot of it.
var Kind = platforms.Kind{
	Name: ID, Label: "Web", Unscoped: true, Own: true,
	CheckID: relay.CheckName,
	Open:    func(o platforms.Options) (platforms.Platform, error) { return New(NewRooms(), o.Log), nil },
}

var bot = relay.Bot{Platform: ID, ID: Handle}

// Platform is the bot.
type Platform struct {
	// Set once, by New.
	rooms  *Rooms
	log    *slog.Logger
	status *status.Tracker
}

var (
	_ platforms.Platform     = (*Platform)(nil)
	_ platforms.Editor       = (*Platform)(nil)
	_ platforms.Typer        = (*Platform)(nil)
	_ platforms.Reacter      = (*Platform)(nil)
	_ platforms.Deleter      = (*Platform)(nil)
	_ platforms.ChatInformer = (*Platform)(nil)
	_ platforms.DirectChats  = (*Platform)(nil)
	_ platforms.Roster       = (*Platform)(nil)
	_ platforms.MediaSender  = (*Platform)(nil)
	_ platforms.MediaFetcher = (*Platform)(nil)
	_ platforms.Prompter     = (*Platform)(nil)
)

// New makes the bot of rooms. A nil log discards.
func New(rooms *Rooms, log *slog.Logger) *Platform {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Platform{rooms: rooms, log: log, status: status.New("")}
}

// Rooms are where the bot is.
func (p *Platform) Rooms() *Rooms { return p.rooms }

// Bot is always web:web.
func (p *Platform) Bot() relay.Bot { return bot }

// Descriptor is what the network can do.
func (p *Platform) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform: ID, Label: Kind.Label, MaxMessageLength: MaxLength, LenUnit: relay.LenChars,
		MarkdownDialect: "markdown",
	}
}

// Status is the state of the connection.
func (p *Platform) Status() platforms.Status { return p.status.Get() }

// Run hands in what is said until ctx ends.
func (p *Platform) Run(ctx context.Context, in platforms.Inbox) error {
	p.status.Set(platforms.Connected, "")
	defer p.status.Set(platforms.Stopped, "shut down")
	pause := backoff.Backoff{First: firstRetry, Max: lastRetry}
	for ctx.Err() == nil {
		next, changed := p.rooms.next()
		if next == nil {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		p.status.EventReceived()
		err := in.Accept(ctx, next.batch(p.rooms))
		switch {
		case err == nil:
			p.status.SetStuck("") // before whoever said it is told, who may look
			p.rooms.accepted()
			pause.Reset()
		case ctx.Err() == nil:
			d := pause.Next()
			p.status.SetStuck("what is said here cannot be stored; it is kept in memory and tried again")
			p.log.Warn("event not accepted; handing it in again", "in", d, "err", err)
			backoff.Pause(ctx, d)
		}
	}
	return nil
}

// DirectUser tells whose chat it is: every chat is a direct one.
func (p *Platform) DirectUser(chat relay.ChatID) (relay.UserID, bool) {
	return relay.UserID(chat), relay.CheckName(string(chat)) == nil
}

// CanSee reports whether the chat is the user's.
func (p *Platform) CanSee(_ context.Context, place relay.Place, user relay.UserID) (bool, error) {
	who, ok := p.DirectUser(place.Chat)
	return ok && who == user, nil
}

// ChatInfo tells a chat's name and type.
func (p *Platform) ChatInfo(ctx context.Context, a relay.GetChatInfo) (relay.Result, error) {
	if err := unfit(ctx, a.Chat); err != nil {
		return relay.Result{}, err
	}
	return relay.Result{ChatInfo: &relay.ChatInfo{Name: string(a.Chat), Type: relay.ChatDM}}, nil
}
