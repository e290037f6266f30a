// Package sms is one number at Twilio behind platforms.Bot: Twilio posts people's messages to us, and answers go out
// over its API. Twilio's WhatsApp and RCS senders are numbers like any other.
//
// The number that a message says it is from can be forged: a text message has no proof of its sender. cli/help/webhooks.md
// says so.
//
// Invariants, besides those of package platforms:
//
//  1. Nothing in a request is used before Twilio's signature over it is verified, for either of the two spellings of
//     our address.
//  2. A message whose outcome is unknown is never sent again: Twilio accepts no idempotency key.
package sms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/inbox"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Name is the platform's name in the configuration and on the wire, which gateways know.
const Name relay.PlatformID = "sms"

const (
	keyAccount = "account_sid"
	keyFrom    = "from"

	badCredentials = "Twilio does not accept account_sid with this auth token"
)

// Network is Twilio, for the list of networks in the binary.
var Network = platforms.Network{
	Name:       Name,
	Label:      "SMS",
	Keys:       settings(),
	TokenHelp:  "the account's auth token, from Twilio's console",
	CheckToken: checkToken,
	CheckID:    checkID,
	Unscoped:   true,
	Open:       func(o platforms.Options) (platforms.Bot, error) { return open(o) },
}

func settings() []platforms.Key {
	return []platforms.Key{
		{Name: keyAccount, Check: checkAccount, Help: "the account's SID, AC and 32 hex digits, from Twilio's console"},
		{Name: keyFrom, Check: checkFrom, Help: "who messages are from: a number like +15005550006, whatsapp:+…, rcs:…, a short code, or a messaging service, MG…"},
	}
}

// Bot is one sender.
type Bot struct {
	inbox.People
	// Set once, by open.
	bot     relay.Bot
	account string
	from    string
	token   relay.Secret
	hook    string   // where Twilio calls
	origins []string // the ways to write our own address
	base    string   // of the account at the API
	api     *httpcall.Client
	turns   *sender.Turns
	status  *status.Tracker
	feed    *inbox.Feed
	log     *slog.Logger
	watch   *inbox.Watch
}

var (
	_ platforms.Bot  = (*Bot)(nil)
	_ platforms.Hook = (*Bot)(nil)
)

func open(o platforms.Options) (*Bot, error) {
	opts, err := o.Checked(checkToken, "an API like Twilio's", settings())
	if err != nil {
		return nil, err
	}
	if o.PublicURL == "" {
		return nil, errors.New("public_url is missing: Twilio posts what people write to it, and signs it")
	}
	bot := relay.Bot{Platform: Name, ID: relay.BotID(letters(opts[keyFrom]))}
	people := inbox.People{Platform: Name, With: personIn}
	p := &Bot{
		People: people, bot: bot, account: opts[keyAccount], from: opts[keyFrom], token: o.Token,
		hook: o.PublicURL + platforms.HookPath(bot), origins: spellings(o.PublicURL),
		base: cmp.Or(o.APIBase, "https://api.twilio.com") + "/2010-04-01/Accounts/" + opts[keyAccount], log: o.Log,
		api: httpcall.New(o.Token, o.Transport, maxAnswer), turns: sender.New(rates(), explained, people.CheckChat),
		status: status.New(opts[keyFrom]), feed: inbox.NewFeed(),
	}
	p.watch = inbox.NewWatch(p.status, o.Log, p.look, judge)
	return p, nil
}

// letters returns the letters and digits of s, which is a sender.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, s)
}

func checkToken(s relay.Secret) error {
	if !tokenForm.MatchString(s.RevealString()) {
		return errors.New("want the account's auth token, from Twilio's console: 32 letters and digits")
	}
	return nil
}

var (
	tokenForm   = regexp.MustCompile(`^[0-9A-Za-z_-]{16,64}$`)
	accountForm = regexp.MustCompile(`^AC[0-9a-f]{32}$`)
	// fromForm: a number, at Twilio or at WhatsApp; a short code; an RCS agent; a messaging service.
	fromForm   = regexp.MustCompile(`^(?:(?:whatsapp:)?\+[0-9]{5,15}|[0-9]{3,15}|rcs:[0-9A-Za-z_+-]+|MG[0-9a-f]{32})$`)
	personForm = regexp.MustCompile(`^(?:[a-z]+:)?\+?[0-9]+$`)
)

func checkAccount(v string) error {
	if !accountForm.MatchString(v) {
		return fmt.Errorf("%q: want the account's SID, AC and 32 hex digits", v)
	}
	return nil
}

func checkFrom(v string) error {
	if !fromForm.MatchString(v) {
		return fmt.Errorf("%q: want a number like +15005550006, whatsapp:+…, rcs:…, a short code, or MG…", v)
	}
	return nil
}

// checkID refuses names: people are known by their numbers.
func checkID(id string) error {
	if !personForm.MatchString(id) {
		return errors.New("people are known by their numbers, like +4915112345678 or whatsapp:+4915112345678")
	}
	return nil
}

// personIn returns the person of a chat: the id of both is the same number.
func personIn(chat relay.ChatID) (relay.UserID, bool) {
	return relay.UserID(chat), checkID(string(chat)) == nil
}

func (p *Bot) ID() relay.Bot { return p.bot }

func (p *Bot) Status() platforms.Status { return p.status.Get() }

// Descriptor implements platforms.Bot.
func (p *Bot) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform: Name, Label: "SMS", MaxMessageLength: maxText, LenUnit: relay.LenChars, MarkdownDialect: "plain",
		PIISafe: true, Emoji: "📱",
	}
}

// Run implements platforms.Bot.
func (p *Bot) Run(ctx context.Context, in platforms.Inbox) error {
	defer p.api.HTTP.CloseIdleConnections()
	return p.watch.Run(ctx, func(ctx context.Context) {
		p.feed.Run(ctx, in, p.status.StuckAfter("what Twilio posts cannot be stored"))
	})
}

// judge returns the state of the bot, and its reason, after a failed look at the account.
func judge(f *httpcall.Fault) (platforms.State, string) {
	if f.Refused(http.StatusUnauthorized) {
		return platforms.BadCredentials, badCredentials
	}
	return platforms.Degraded, "Twilio cannot be reached: " + f.Error()
}
