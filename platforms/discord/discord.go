// Package discord is one Discord bot behind platforms.Bot. It turns the gateway's dispatches into events (package
// gateway), and carries out actions over REST (package rest). discordgo provides constants, endpoints and the types of
// requests.
//
// It does not decide who may see or do what, and stores nothing on disk itself. It streams files and never has a whole
// file in memory.
//
// Invariants, besides those of package platforms:
//
//  1. The stored sequence moves past a dispatch only after Inbox.Accept has returned nil for its event. Session,
//     sequence and resume URL are one blob, stored together with the events that they cover.
//  2. An interaction is answered before its event waits for the disk; its token is not used before that
//     answer is over. This holds for interactions from the socket and from HTTP requests, which share the feeder.
//  3. An interaction that comes over HTTP never changes the state of the session. Until it is stored only this process
//     has it: an orderly stop stores it or removes its placeholder; after a kill it is lost, and the person sees "is
//     thinking" until Discord gives up.
//  4. A request that may have been carried out is never repeated, unless a nonce makes it harmless.
package discord

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/commands"
	"github.com/hermes-connector/hermes-connector/platforms/discord/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/discord/examine"
	"github.com/hermes-connector/hermes-connector/platforms/discord/gateway"
	"github.com/hermes-connector/hermes-connector/platforms/discord/guilds"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Name is the platform's name in the configuration and on the wire.
const Name relay.PlatformID = "discord"

// keyCommandWait is the setting that says how long the registrar waits for the commands of further gateways.
const keyCommandWait = "command_wait"

// Network is Discord, for the list of networks in the binary.
var Network = platforms.Network{
	Name:       Name,
	Label:      "Discord",
	Keys:       keys(),
	CheckToken: checkToken,
	CheckID:    checkID,
	Guide: "On https://discord.com/developers/applications make a New Application; under Bot, Reset Token shows the token. " +
		"Switch Message Content Intent on there, too.",
	Open: func(o platforms.Options) (platforms.Bot, error) { return open(o) },
}

func keys() []platforms.Key {
	return append(gateway.Keys(), mentionsKey(), platforms.PreviewsKey(), publicKeyKey(), interactionsKey(), cdnKey(), platforms.DurationKey(keyCommandWait, "15s",
		"how long to wait for the commands of further gateways before slash commands are registered; at most twice that"))
}

// The abilities of a Discord bot.
var (
	_ platforms.Bot              = (*Bot)(nil)
	_ platforms.Editor           = (*Bot)(nil)
	_ platforms.Typer            = (*Bot)(nil)
	_ platforms.Reacter          = (*Bot)(nil)
	_ platforms.Deleter          = (*Bot)(nil)
	_ platforms.ChatInformer     = (*Bot)(nil)
	_ platforms.ThreadCreator    = (*Bot)(nil)
	_ platforms.ThreadRenamer    = (*Bot)(nil)
	_ platforms.Limited          = (*Bot)(nil)
	_ platforms.Roster           = (*Bot)(nil)
	_ platforms.Manager          = (*Bot)(nil)
	_ platforms.Locator          = (*Bot)(nil)
	_ platforms.DirectChats      = (*Bot)(nil)
	_ platforms.Threader         = (*Bot)(nil)
	_ platforms.Responder        = (*Bot)(nil)
	_ platforms.MediaResponder   = (*Bot)(nil)
	_ platforms.MediaSender      = (*Bot)(nil)
	_ platforms.MediaFetcher     = (*Bot)(nil)
	_ platforms.PublicMedia      = (*Bot)(nil)
	_ platforms.Examiner         = (*Bot)(nil)
	_ platforms.Historian        = (*Bot)(nil)
	_ platforms.CommandRegistrar = (*Bot)(nil)
	_ platforms.AuthorTeller     = (*Bot)(nil)
	_ platforms.MessageEventer   = (*Bot)(nil)
	_ platforms.PersonFinder     = (*Bot)(nil)
	_ commands.Keeper            = (*Bot)(nil)
)

// Bot is one Discord bot.
type Bot struct {
	// Set once, by open.
	bot      relay.Bot
	base     string            // of the API, as configured, without a version
	key      ed25519.PublicKey // verifies Discord's HTTP requests; nil: there are none
	opts     platforms.Settings
	log      *slog.Logger
	commands *commands.Registrar
	reader   *reader // only the feeder's goroutine uses it
	status   *status.Tracker
	memory   *memory
	files    *files
	absent   *rest.Absent

	*guilds.Guilds // who sees and who manages what
	*writer        // sends messages
	*hooks         // answers interactions
	*threads       // makes threads, and knows which it made

	examine.Examiner // asks Discord about the bot

	holding *holding
}

func open(o platforms.Options) (*Bot, error) {
	opts, err := o.Checked(checkToken, "a Discord API without a version, like http://127.0.0.1:8081/api", keys())
	if err != nil {
		return nil, err
	}
	key, _ := publicKey(opts[keyPublicKey]) // checked by Options.Settings
	if key != nil {
		if err := checkAddress(o); err != nil {
			return nil, err
		}
	}
	id, _ := tokenID(o.Token)
	bot := relay.Bot{Platform: Name, ID: id}
	api := rest.New(o.Token, o.APIBase, o.Transport)
	known, mem := guilds.New(bot, api), newMemory()
	w := &writer{
		rest: api,
		// Package rest keeps to the rates, which Discord names with every answer. The limiter keeps the order
		// within a chat and the pauses Discord demands.
		turns:    sender.New(ratelimit.Rates{}, explained, checkChat),
		pings:    opts[keyMentions],
		previews: opts.Previews(),
	}
	p := &Bot{
		bot:     bot,
		base:    o.APIBase,
		key:     key,
		opts:    opts,
		log:     o.Log,
		Guilds:  known,
		writer:  w,
		hooks:   &hooks{writer: w, bot: id, log: o.Log, memory: mem, callbacks: newCallbacks(), asides: make(chan aside, maxWhispers)},
		threads: &threads{writer: w, log: o.Log, memory: mem, guilds: known},
		reader:  newReader(bot, known),
		status:  status.New(""),
		memory:  mem,
		files:   newFiles(opts[keyCDN], o.Transport),
		absent:  new(rest.Absent),
		holding: newHolding(),

		Examiner: examine.New(bot, api, o.APIBase != ""),
	}
	p.reader.cdn = p.files.cdn
	p.reader.passthrough = p.opts[keyInteractions] == interactionsPassthrough
	p.commands = commands.New(p.rest, p, p.log, p.opts.Duration(keyCommandWait))
	return p, nil
}

// ID implements platforms.Bot. The token begins with the bot's id.
func (p *Bot) ID() relay.Bot { return p.bot }

func (p *Bot) Status() platforms.Status { return p.status.Get() }

// checkID returns an error unless id is a number: names and mentions are no ids.
func checkID(id string) error {
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return errors.New("the ids of Discord are numbers: switch Developer Mode on in its settings, then right-click, Copy ID")
	}
	return nil
}

// checkToken accepts three parts joined by dots, of which the first is the bot's id in base64. Test servers use toy
// tokens, so lengths do not matter.
func checkToken(token relay.Secret) error {
	const (
		form = "a bot token has three parts joined by dots, and is shown once by the developer portal " +
			"under Bot, Reset Token"
		letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	)
	s := token.RevealString()
	parts := strings.Split(s, ".")
	switch {
	case s == "":
		return errors.New("the Discord token is empty; " + form)
	case strings.HasPrefix(s, "Bot "):
		return errors.New(`the Discord token begins with "Bot ": leave that word out; ` + form)
	case strings.ContainsAny(s, " \t\r\n"):
		return errors.New("the Discord token contains blanks or line breaks; " + form)
	case len(parts) == 1 && strings.Trim(s, "0123456789") == "":
		return errors.New("the Discord token is a number, as if the application id was pasted; " + form)
	case len(parts) == 1:
		return errors.New("the Discord token has no dots, as if the client secret or the public key was pasted; " + form)
	case len(parts) != 3:
		return errors.New("the Discord token does not have three parts; " + form)
	}
	for _, part := range parts {
		if part == "" || strings.Trim(strings.TrimRight(part, "="), letters) != "" {
			return errors.New("the Discord token has an empty part or characters no token has; " + form)
		}
	}
	if _, ok := tokenID(token); !ok {
		return errors.New("the Discord token does not begin with a bot's id; " + form)
	}
	return nil
}

// tokenID returns the id of the bot the token belongs to: its first part, a decimal number in base64.
func tokenID(token relay.Secret) (relay.BotID, bool) {
	first, _, _ := strings.Cut(token.RevealString(), ".")
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(first, "="))
	if err != nil {
		return "", false
	}
	id, err := guilds.ParseID(string(raw))
	return relay.BotID(id.String()), err == nil
}

// Descriptor implements platforms.Bot, with the values of the gateway's own Discord adapter.
func (p *Bot) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform:         Name,
		Label:            "Discord",
		MaxMessageLength: dialect.MaxText,
		LenUnit:          relay.LenChars,
		MarkdownDialect:  "discord",
		SupportsThreads:  true,
		Emoji:            "🎮",
	}
}
