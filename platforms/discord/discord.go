// Package discord is one Discord bot behind platforms.Platform: it holds the bot's gateway socket,
// turns what comes over it into events, and carries actions out over REST. discordgo gives the
// types and constants; the socket and the HTTP client are its own, because the library's socket
// can hang for ever, cannot resume after a restart and does not know a final close from another.
//
// It does not decide who may see or do what, keeps nothing on disk itself, and fetches no files.
//
// Invariants, besides those of package platforms:
//
//  1. The stored sequence moves past a dispatch only after Inbox.Accept returned nil for the event
//     in it; session, sequence and resume URL are one blob, stored with the events they cover.
//  2. The socket is never closed by us with 1000 or 1001, so that a session can always be resumed:
//     the end of the process is not the end of the session.
//  3. No read is without a deadline, from the dial to the last byte of a payload.
//  4. An interaction is answered before its event waits for the disk, and independent of it; its
//     token is not used before that answer is over.
//  5. At most maxIdentifies identifies leave in a rolling day, and never more than Discord grants.
//  6. The state is Connected only from READY or RESUMED on until the socket is lost.
//  7. Every error of the API passes one place that removes the token (rest.scrub).
//  8. A request that may have been carried out is never repeated, unless a nonce makes it harmless.
package discord

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/pace"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Name is the platform's name in the configuration and on the wire.
const Name relay.PlatformID = "discord"

// The settings of a Discord bot.
const (
	keyInteractions = "interactions"
	keyAnswerWait   = "answer_timeout"
	keyRetryWait    = "retry_wait"
	keyRetryMax     = "retry_max"
	keyIdentifyWait = "identify_wait"
	keyIntentWait   = "intent_wait"
)

// Kind is Discord, for the list of networks in the binary.
var Kind = platforms.Kind{
	Name:       Name,
	Label:      "Discord",
	Keys:       keys(),
	CheckToken: checkToken,
	CheckID:    checkID,
	Open:       func(o platforms.Options) (platforms.Platform, error) { return open(o) },
}

func keys() []platforms.Key {
	return []platforms.Key{
		{
			Name: keyInteractions, Default: "inbound", Check: checkInteractions,
			Help: `how slash commands and button presses reach a gateway: "inbound", as messages`,
		},
		{
			Name: keyAnswerWait, Default: "15s", Check: checkDuration,
			Help: "how long Discord may take to answer a connect, a greeting or an identify, or to finish a payload it began",
		},
		{
			Name: keyRetryWait, Default: "1s", Check: checkDuration,
			Help: "the first pause after a lost connection; doubles with each further failure",
		},
		{
			Name: keyRetryMax, Default: "1m", Check: checkDuration,
			Help: "the longest pause after a lost connection",
		},
		{
			Name: keyIdentifyWait, Default: "5s", Check: checkDuration,
			Help: "the least pause between two new sessions; grows with their number in a day",
		},
		{
			Name: keyIntentWait, Default: "20m", Check: checkDuration,
			Help: "the pause while Discord refuses an intent, until it is enabled in the developer portal",
		},
		mentionsKey(),
		commandsKey(),
	}
}

// What a Discord bot can do.
var (
	_ platforms.Platform         = (*Platform)(nil)
	_ platforms.Editor           = (*Platform)(nil)
	_ platforms.Typer            = (*Platform)(nil)
	_ platforms.Reacter          = (*Platform)(nil)
	_ platforms.Deleter          = (*Platform)(nil)
	_ platforms.ChatInformer     = (*Platform)(nil)
	_ platforms.ThreadCreator    = (*Platform)(nil)
	_ platforms.ThreadRenamer    = (*Platform)(nil)
	_ platforms.Gatekeeper       = (*Platform)(nil)
	_ platforms.Roster           = (*Platform)(nil)
	_ platforms.Manager          = (*Platform)(nil)
	_ platforms.Locator          = (*Platform)(nil)
	_ platforms.DirectChats      = (*Platform)(nil)
	_ platforms.Threader         = (*Platform)(nil)
	_ platforms.Responder        = (*Platform)(nil)
	_ platforms.CommandRegistrar = (*Platform)(nil)
)

// Platform is one Discord bot.
type Platform struct {
	// Set once, by open.
	bot      relay.Bot
	base     string // of the API, as configured, without a version
	opts     settings
	log      *slog.Logger
	limits   *limits
	rest     *rest
	acks     *http.Client // interaction call-backs only: nothing may hold them up
	sockets  *http.Client // dials the gateway
	gate     *pace.Gate
	commands *registrar
	cache    *cache
	reader   *reader // of the feeder's goroutine
	board    *board
	memory   *memory

	callbacks *callbacks

	cutting sync.Mutex // held while a long text becomes a letter
}

// settings are the decoded values of Kind.Keys.
type settings struct {
	answerWait   time.Duration
	retryWait    time.Duration
	retryMax     time.Duration
	identifyWait time.Duration
	intentWait   time.Duration
	mentions     string
	commandWait  time.Duration
}

func open(o platforms.Options) (*Platform, error) {
	if err := checkToken(o.Token); err != nil {
		return nil, err
	}
	if err := checkBase(o.APIBase); err != nil {
		return nil, err
	}
	opts, err := readSettings(o.Values)
	if err != nil {
		return nil, err
	}
	id, _ := tokenID(o.Token)
	bot, limits := relay.Bot{Platform: Name, ID: id}, newLimits()
	rest, cache := newREST(o.Token, o.APIBase, o.Transport, limits), newCache(bot)
	return &Platform{
		bot:      bot,
		base:     o.APIBase,
		opts:     opts,
		log:      o.Log,
		limits:   limits,
		rest:     rest,
		acks:     newHTTPClient(o.Transport),
		sockets:  newHTTPClient(o.Transport),
		gate:     pace.New(rates()),
		commands: newRegistrar(),
		cache:    cache,
		reader:   newReader(bot, cache, rest),
		board:    newBoard(),
		memory:   newMemory(),

		callbacks: newCallbacks(),
	}, nil
}

// Bot implements platforms.Platform. The token begins with the bot's id.
func (p *Platform) Bot() relay.Bot { return p.bot }

// Status implements platforms.Platform.
func (p *Platform) Status() platforms.Status { return p.board.read() }

func readSettings(values map[string]string) (settings, error) {
	value := make(map[string]string, len(keys()))
	for _, k := range keys() {
		value[k.Name] = k.Default
		if v, ok := values[k.Name]; ok {
			value[k.Name] = v
		}
		if err := k.Check(value[k.Name]); err != nil {
			return settings{}, fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	duration := func(key string) time.Duration {
		d, _ := time.ParseDuration(value[key]) // checked above
		return d
	}
	return settings{
		answerWait:   duration(keyAnswerWait),
		retryWait:    duration(keyRetryWait),
		retryMax:     duration(keyRetryMax),
		identifyWait: duration(keyIdentifyWait),
		intentWait:   duration(keyIntentWait),
		mentions:     value[keyMentions],
		commandWait:  duration(keyCommandWait),
	}, nil
}

func checkInteractions(v string) error {
	if v != "inbound" {
		return fmt.Errorf("%s: want inbound", strconv.Quote(v))
	}
	return nil
}

func checkDuration(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return fmt.Errorf("%s: want a duration above zero, like 30s", strconv.Quote(v))
	}
	return nil
}

// checkID refuses names and mentions.
func checkID(id string) error {
	if strings.HasPrefix(id, "#") || strings.HasPrefix(id, "@") || strings.HasPrefix(id, "<") {
		return errors.New("the ids of Discord are numbers: switch Developer Mode on in its settings, then right-click, Copy ID")
	}
	return nil
}

// checkToken accepts three parts of letters, digits, _ and - joined by dots, the first of which is
// the bot's id in base64. Test servers hand out toy tokens, so the lengths do not matter.
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

// tokenID is the id of the bot the token belongs to: its first part, a decimal number in base64.
func tokenID(token relay.Secret) (relay.BotID, bool) {
	first, _, _ := strings.Cut(token.RevealString(), ".")
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(first, "="))
	if err != nil {
		return "", false
	}
	id, err := parseSnowflake(string(raw))
	if err != nil || id.String() != string(raw) { // no sign
		return "", false
	}
	return relay.BotID(id.String()), true
}

// checkBase accepts an empty base, or the URL of a REST API without its version.
func checkBase(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("api_base: want the URL of a Discord API without a version, like http://127.0.0.1:8081/api")
	}
	return nil
}
