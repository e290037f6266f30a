// Package signal is one Signal account behind platforms.Bot. The account is held by signal-cli's daemon, which the
// operator runs: its stream of server-sent events brings what people write, and its JSON-RPC sends.
//
// A person is identified by their UUID. Their number is shown only if they allow it: a direct chat has the number as
// its id while it is shown, else the UUID, as gateways have it.
//
// Invariants, besides those of package platforms:
//
//  1. The daemon tells Signal that a message was delivered before we have it. Waiting messages are stored together, and
//     few may wait, so that a crash loses only those that were on their way; an orderly stop loses no message that was
//     read. cli/help/signal.md says so.
//  2. A message whose outcome is unknown is never sent again: Signal accepts no key for it.
//  3. A file is sent as its bytes; the daemon never gets a path.
package signal

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/recent"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Name is the platform's name in the configuration and on the wire, which gateways know.
const Name relay.PlatformID = "signal"

const (
	keyDaemon  = "daemon"
	keyAccount = "account"
)

// Network is Signal, for the list of networks in the binary.
var Network = platforms.Network{
	Name: Name, Label: "Signal", Keys: settings(), CheckID: checkID, IsHandle: isNumber, Unscoped: true,
	Guide: "Signal has no bots: signal-cli holds an account of its own, and its daemon has to run before the connector:\n" +
		"  signal-cli daemon --http 127.0.0.1:8080 --receive-mode=on-connection\n" +
		"hermes-connector help signal shows how to register the account, and a service for the daemon.",
	Open: func(o platforms.Options) (platforms.Bot, error) { return open(o) },
}

func settings() []platforms.Key {
	return []platforms.Key{
		{Name: keyAccount, Check: checkAccount, Help: "the account's number, such as +4915112345678, with which signal-cli is registered or linked"},
		{Name: keyDaemon, Default: "http://127.0.0.1:8080", Check: checkDaemon, Help: "where `signal-cli daemon --http` listens"},
	}
}

// Bot is one account.
type Bot struct {
	people // the people whom the daemon knows
	// Set once, by open.
	bot     relay.Bot
	account string // its number
	daemon  *daemon
	turns   *sender.Turns
	status  *status.Tracker
	spoke   *recent.Values[int64, bool]       // the times of the bot's own messages: their echo looks like a note to self
	said    *recent.Values[messageIn, string] // the texts of messages: a quotation must contain the text
	log     *slog.Logger
	wait    backoff.Backoff // before the stream is opened again
	silence time.Duration   // after so much silence the stream counts as dead
	lastTry time.Duration   // how long the last events may take to be stored when the bot is to stop
	captcha atomic.Bool     // Signal wants a captcha, as the last message showed
}

var (
	_ platforms.Bot          = (*Bot)(nil)
	_ platforms.Typer        = (*Bot)(nil)
	_ platforms.Reacter      = (*Bot)(nil)
	_ platforms.Deleter      = (*Bot)(nil)
	_ platforms.ChatInformer = (*Bot)(nil)
	_ platforms.MediaSender  = (*Bot)(nil)
	_ platforms.MediaFetcher = (*Bot)(nil)
	_ platforms.Roster       = (*Bot)(nil)
	_ platforms.Manager      = (*Bot)(nil)
	_ platforms.DirectChats  = (*Bot)(nil)
	_ platforms.Locator      = (*Bot)(nil)
	_ platforms.PersonFinder = (*Bot)(nil)
	_ platforms.Examiner     = (*Bot)(nil)
	_ platforms.Stander      = (*Bot)(nil)
	_ platforms.Limited      = (*Bot)(nil)
)

func open(o platforms.Options) (*Bot, error) {
	if o.APIBase != "" {
		return nil, errors.New("api_base: Signal has none; daemon says where signal-cli listens")
	}
	opts, err := o.Settings(settings())
	if err != nil {
		return nil, err
	}
	account := opts[keyAccount]
	p := &Bot{
		bot: relay.Bot{Platform: Name, ID: relay.BotID(account[1:])}, account: account,
		daemon: newDaemon(opts[keyDaemon], account, o.Transport),
		turns:  sender.New(rates, explained, checkChat), status: status.New(account), log: o.Log,
		spoke: recent.New[int64, bool](remembered), said: recent.New[messageIn, string](remembered),
		wait: backoff.Backoff{First: time.Second, Max: time.Minute}, silence: silence, lastTry: lastTry,
	}
	p.people = people{daemon: p.daemon, byNumber: make(map[string]relay.UserID), names: make(map[relay.UserID]string)}
	return p, nil
}

var (
	numberForm = regexp.MustCompile(`^\+[0-9]{5,15}$`)
	uuidForm   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	groupForm  = regexp.MustCompile(`^group:[A-Za-z0-9+/]{20,}={0,2}$`)
)

func isNumber(s string) bool { return numberForm.MatchString(s) }

func checkAccount(v string) error {
	if !isNumber(v) {
		return fmt.Errorf("%q: want the account's number in full, such as +4915112345678", v)
	}
	return nil
}

func checkDaemon(v string) error {
	if u, err := url.Parse(v); err != nil || u.Path != "" && u.Path != "/" || v == "" || platforms.CheckBase(v, "") != nil {
		return fmt.Errorf("%q: want where signal-cli's daemon listens, such as http://127.0.0.1:8080, without a path", v)
	}
	return nil
}

// checkID accepts the id of a person or a chat.
func checkID(id string) error {
	if !isNumber(id) && !uuidForm.MatchString(id) && !groupForm.MatchString(id) {
		return errors.New("people are known by a UUID, or a number such as +4915112345678, and groups by group: and their id")
	}
	return nil
}

// checkChat refuses an action if the id cannot be a chat, before the daemon is asked.
func checkChat(chat relay.ChatID) error {
	if checkID(string(chat)) != nil {
		return relay.Gone("", nil)
	}
	return nil
}

// groupIn returns the daemon's id for the group of a chat; ok is false for a direct chat.
func groupIn(chat relay.ChatID) (id string, ok bool) {
	return strings.CutPrefix(string(chat), "group:")
}

func (p *Bot) ID() relay.Bot { return p.bot }

func (p *Bot) Status() platforms.Status {
	s := p.status.Get()
	if s.State == platforms.Connected && p.captcha.Load() {
		s.State, s.Reason = platforms.Degraded, "Signal wants a captcha to be solved before the account may write: signal-cli submitRateLimitChallenge"
	}
	return s
}

// maxText is how many characters a message has at most: Signal shows more of a message only on demand.
const maxText = 2000

// Descriptor implements platforms.Bot.
func (p *Bot) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform: Name, Label: "Signal", MaxMessageLength: maxText, LenUnit: relay.LenChars, MarkdownDialect: "markdown",
		PIISafe: true, Emoji: "🔒",
	}
}

// rates are a guess: Signal publishes none. They keep a gateway that runs wild from causing a captcha for the account.
var rates = ratelimit.Rates{
	Bot:      ratelimit.Rate{Every: 250 * time.Millisecond, Burst: 20},
	Chat:     ratelimit.Rate{Every: time.Second, Burst: 10},
	Instance: ratelimit.Rate{Every: 500 * time.Millisecond, Burst: 5},
}

const (
	// remembered is how many messages of each sort are remembered.
	remembered = 1000
	// maxQuoted is how many bytes of a message are quoted.
	maxQuoted = 500
)

// messageIn is a message in its chat: gateways name messages that they answer, and must not read another chat by that.
type messageIn struct {
	chat relay.ChatID
	id   relay.MessageID
}

// remember notes the text of a message.
func (p *Bot) remember(chat relay.ChatID, id relay.MessageID, text string) {
	if len(text) > maxQuoted {
		text = relay.Shown(text[:maxQuoted]) + "…"
	}
	p.said.Put(messageIn{chat, id}, text)
}

// messageID names a message by its author (the account itself for the bot's messages) and its time.
func messageID(author string, at int64) relay.MessageID {
	return relay.MessageID(fmt.Sprintf("%s:%d", author, at))
}

// parseMessage is the inverse of messageID. ok is false for an id that messageID does not make.
func parseMessage(id relay.MessageID) (author string, at int64, ok bool) {
	author, digits, _ := strings.Cut(string(id), ":")
	_, err := fmt.Sscanf(digits, "%d", &at)
	ok = err == nil && at > 0 && messageID(author, at) == id && (isNumber(author) || uuidForm.MatchString(author))
	return author, at, ok
}

// idOf returns the user id of a person for whom the network gives a UUID, a number, or both.
func idOf(uuid, number string) relay.UserID {
	return relay.UserID(cmp.Or(strings.ToLower(uuid), number))
}
