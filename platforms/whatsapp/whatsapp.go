// Package whatsapp is one phone number at WhatsApp's Cloud API behind platforms.Bot: Meta posts people's messages to
// us, and answers go out over its Graph API. WhatsApp through Twilio is package sms.
//
// Invariants, besides those of package platforms:
//
//  1. Nothing of a request counts before Meta's signature over its bytes is verified, and nothing that is for another
//     number.
//  2. A message whose outcome is unknown is never sent again: the API accepts no key for it.
//  3. The token is sent to the API and to Meta's servers of files, and to nobody else.
package whatsapp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/inbox"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/recent"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Name is the platform's name in the configuration and on the wire, which gateways know.
const Name relay.PlatformID = "whatsapp_cloud"

const (
	keyNumber  = "phone_number_id"
	keyVersion = "api_version"
	keySecret  = "app_secret"
	keyVerify  = "verify_token"

	badCredentials = "WhatsApp does not accept the token for phone_number_id: use a system user's, which does not expire"
)

// Network is the Cloud API, for the list of networks in the binary.
var Network = platforms.Network{
	Name: Name, Label: "WhatsApp", Keys: settings(), TokenHelp: "a system user's access token, from Meta's business settings",
	CheckToken: checkSecret, CheckID: checkID, Unscoped: true,
	Secrets: secrets(), Formless: true,
	Guide: "At Meta, make an app with WhatsApp, a system user, and a token of theirs: hermes-connector help whatsapp says how.",
	Open:  func(o platforms.Options) (platforms.Bot, error) { return open(o) },
}

func settings() []platforms.Key {
	return []platforms.Key{
		{Name: keyNumber, Check: checkNumber, Help: "the number's id, from the app's page WhatsApp, API Setup; not the number itself"},
		{Name: keyVersion, Default: "v24.0", Check: checkVersion, Help: "version of the Graph API"},
	}
}

func secrets() []platforms.SecretKey {
	return []platforms.SecretKey{
		{Name: keySecret, Check: checkSecret, Help: "the app's secret, with which Meta signs its calls: App settings, Basic"},
		{Name: keyVerify, Check: checkSecret, Help: "a text of your own, which Meta repeats when you enter the web hook"},
	}
}

// Bot is one number.
type Bot struct {
	inbox.People
	// Set once, by open.
	bot      relay.Bot
	token    relay.Secret
	secret   relay.Secret // of the app
	verify   relay.Secret
	base     string // of the API, with its version
	host     string // of the API
	api      *httpcall.Client
	turns    *sender.Turns
	status   *status.Tracker
	feed     *inbox.Feed
	log      *slog.Logger
	newest   *recent.Values[relay.ChatID, relay.MessageID] // each person's newest message: the API shows only there that the bot types
	said     *recent.Values[relay.MessageID, string]       // texts of messages: the API names a quoted message without its text
	refusals chan refusal                                  // presses whose people are to be told that they do not count
	watch    *inbox.Watch

	mu     sync.Mutex // guards number
	number string     // as people dial it, digits only; empty: not known yet
}

var (
	_ platforms.Bot          = (*Bot)(nil)
	_ platforms.Hook         = (*Bot)(nil)
	_ platforms.Typer        = (*Bot)(nil)
	_ platforms.Reacter      = (*Bot)(nil)
	_ platforms.Prompter     = (*Bot)(nil)
	_ platforms.MediaSender  = (*Bot)(nil)
	_ platforms.MediaFetcher = (*Bot)(nil)
	_ platforms.Examiner     = (*Bot)(nil)
	_ platforms.DeepLinker   = (*Bot)(nil)
	_ platforms.Limited      = (*Bot)(nil)
)

func open(o platforms.Options) (*Bot, error) {
	opts, err := o.Checked(checkSecret, "an API like Meta's Graph API, without a version", settings())
	if err != nil {
		return nil, err
	}
	for _, k := range secrets() {
		if err := k.Check(o.Secrets[k.Name]); err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
	}
	if o.PublicURL == "" {
		return nil, errors.New("public_url is missing: Meta posts what people write to it")
	}
	base := cmp.Or(o.APIBase, "https://graph.facebook.com")
	at, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("api_base: not a URL")
	}
	people := inbox.People{Platform: Name, With: personIn}
	p := &Bot{
		People: people, bot: relay.Bot{Platform: Name, ID: relay.BotID(opts[keyNumber])},
		token: o.Token, secret: o.Secrets[keySecret], verify: o.Secrets[keyVerify],
		base: base + "/" + opts[keyVersion], host: at.Host, api: httpcall.New(o.Token, o.Transport, maxAnswer),
		turns: sender.New(rates, explained, people.CheckChat), status: status.New(""), feed: inbox.NewFeed(), log: o.Log,
		newest: recent.New[relay.ChatID, relay.MessageID](remembered), said: recent.New[relay.MessageID, string](remembered), refusals: make(chan refusal, maxRefusals),
	}
	p.watch = inbox.NewWatch(p.status, o.Log, func(ctx context.Context) error {
		_, err := p.look(ctx)
		return err
	}, judge)
	return p, nil
}

func checkSecret(s relay.Secret) error {
	if v := s.RevealString(); len(v) < 8 || strings.ContainsAny(v, " \t\r\n") {
		return errors.New("want one word of at least 8 characters")
	}
	return nil
}

var (
	numberForm  = regexp.MustCompile(`^[0-9]{5,20}$`)
	versionForm = regexp.MustCompile(`^v[0-9]{1,3}\.[0-9]{1,2}$`)
	// personForm matches a number, without its plus, or Meta's id of a person who hides theirs.
	personForm = regexp.MustCompile(`^(?:[0-9]{5,20}|[A-Z]{2}\.[A-Za-z0-9.]{1,140})$`)
)

func checkNumber(v string) error {
	if !numberForm.MatchString(v) {
		return fmt.Errorf("%q: want the number's id, digits alone", v)
	}
	return nil
}

func checkVersion(v string) error {
	if !versionForm.MatchString(v) {
		return fmt.Errorf("%q: want a version of the Graph API, such as v24.0", v)
	}
	return nil
}

func checkID(id string) error {
	if !personForm.MatchString(id) {
		return errors.New("people are known by their numbers, without plus and blanks, like 4915112345678")
	}
	return nil
}

// personIn returns the person of a chat: both have one id.
func personIn(chat relay.ChatID) (relay.UserID, bool) {
	return relay.UserID(chat), personForm.MatchString(string(chat))
}

func (p *Bot) ID() relay.Bot { return p.bot }

func (p *Bot) Status() platforms.Status { return p.status.Get() }

// Descriptor implements platforms.Bot.
func (p *Bot) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform: Name, Label: "WhatsApp", MaxMessageLength: maxText, LenUnit: relay.LenUTF16, MarkdownDialect: "whatsapp",
		PIISafe: true, Emoji: "💬",
	}
}

// rates are Meta's: 80 messages a second, and one in six seconds to one person, of which 45 may come early.
var rates = ratelimit.Rates{
	Bot:      ratelimit.Rate{Every: 13 * time.Millisecond, Burst: 40},
	Chat:     ratelimit.Rate{Every: 6 * time.Second, Burst: 45},
	Instance: ratelimit.Rate{Every: 50 * time.Millisecond, Burst: 10},
}

// DeepLink implements platforms.DeepLinker.
func (p *Bot) DeepLink(code string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "https://wa.me/" + p.number + "?text=" + url.QueryEscape("/link "+code), p.number != ""
}

// Run implements platforms.Bot.
func (p *Bot) Run(ctx context.Context, in platforms.Inbox) error {
	defer p.api.HTTP.CloseIdleConnections()
	return p.watch.Run(ctx, p.sendRefusals, func(ctx context.Context) {
		p.feed.Run(ctx, in, p.status.StuckAfter("what Meta posts cannot be stored"))
	})
}

// judge says what a failed look at the number means for the bot.
func judge(f *httpcall.Fault) (platforms.State, string) {
	if f.Refused(http.StatusUnauthorized) {
		return platforms.BadCredentials, badCredentials
	}
	return platforms.Degraded, "WhatsApp cannot be reached: " + f.Error()
}

// account is the API's description of the number.
type account struct {
	Shown string `json:"display_phone_number"`
	Name  string `json:"verified_name"`
}

// look asks the API for its description of the number, and remembers the name and the digits in it.
func (p *Bot) look(ctx context.Context) (account, error) {
	var a account
	err := p.get(ctx, string(p.bot.ID)+"?fields=display_phone_number,verified_name", &a)
	if err == nil {
		p.status.SetName(cmp.Or(a.Name, a.Shown))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.number = digits(a.Shown)
	}
	return a, err
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}
