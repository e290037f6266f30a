// Package wecom is a self-built application of WeCom behind platforms.Bot: WeCom posts people's messages to us,
// encrypted, and answers go out over its API.
//
// Invariants, besides those of package platforms:
//
//  1. Before WeCom's signature over the encrypted text is verified, no part of a request is used; after that, only the
//     encrypted text.
//  2. A person is known by corporation and user: two corporations may have the same user.
//  3. The application's secret and the access token stand in URLs, which no error, log line or status quotes.
package wecom

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/inbox"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Name is the platform's name in the configuration and on the wire, which gateways know. "wecom" is another
// product of WeCom's.
const Name relay.PlatformID = "wecom_callback"

const (
	keyCorp  = "corp_id"
	keyAgent = "agent_id"

	secretToken = "callback_token"
	secretAES   = "aes_key"
)

// Network is WeCom, for the list of networks in the binary.
var Network = platforms.Network{
	Name:      Name,
	Label:     "WeCom",
	Keys:      settings(),
	TokenHelp: "the application's secret",
	Secrets: []platforms.SecretKey{
		{Name: secretToken, Help: "the Token of the application's call-back settings", Check: checkToken},
		{Name: secretAES, Help: "the EncodingAESKey of the application's call-back settings", Check: checkAES},
	},
	CheckToken: checkSecret,
	CheckID:    checkID,
	Unscoped:   true,
	Open:       func(o platforms.Options) (platforms.Bot, error) { return open(o) },
}

func settings() []platforms.Key {
	return []platforms.Key{
		{Name: keyCorp, Check: checkCorp, Help: "the corporation's id, ww and 16 hex digits"},
		{Name: keyAgent, Check: checkAgent, Help: "the application's AgentId, a number"},
	}
}

// Bot is one application.
type Bot struct {
	inbox.People
	// Set once, by open.
	bot    relay.Bot
	corp   string
	agent  string
	token  relay.Secret // of the call-back
	key    []byte       // AES
	api    *client
	turns  *sender.Turns
	status *status.Tracker
	feed   *inbox.Feed
	watch  *inbox.Watch

	trouble atomic.Pointer[string] // why WeCom refused the newest message, if that concerns all messages; nil: it did not
}

var (
	_ platforms.Bot  = (*Bot)(nil)
	_ platforms.Hook = (*Bot)(nil)
)

func open(o platforms.Options) (*Bot, error) {
	opts, err := o.Checked(checkSecret, "an API like WeCom's", settings())
	if err != nil {
		return nil, err
	}
	if err := checkToken(o.Secrets[secretToken]); err != nil {
		return nil, err
	}
	key, err := aesKey(o.Secrets[secretAES])
	if err != nil {
		return nil, err
	}
	if o.PublicURL == "" {
		return nil, errors.New("public_url is missing: WeCom posts what people write to it")
	}
	p := &Bot{
		bot:  relay.Bot{Platform: Name, ID: relay.BotID(opts[keyCorp] + "-" + opts[keyAgent])},
		corp: opts[keyCorp], agent: opts[keyAgent], token: o.Secrets[secretToken], key: key,
		status: status.New(""), feed: inbox.NewFeed(),
	}
	p.People = inbox.People{Platform: Name, With: func(chat relay.ChatID) (relay.UserID, bool) {
		_, ok := p.user(chat)
		return relay.UserID(chat), ok
	}}
	p.turns = sender.New(rates(), explained, p.CheckChat)
	p.api = newClient(opts[keyCorp], opts[keyAgent], o)
	p.watch = inbox.NewWatch(p.status, o.Log, p.look, judge)
	p.watch.First = afterFailure
	return p, nil
}

var (
	checkSecret = oneWord("the application's secret", "it stands on the application's page of WeCom's console")
	checkToken  = oneWord("the call-back's Token", "it stands in the application's call-back settings")
)

// oneWord makes the check of a credential without blanks; where says where people find it.
func oneWord(what, where string) func(relay.Secret) error {
	return func(s relay.Secret) error {
		if t := s.RevealString(); t == "" || strings.ContainsAny(t, " \t\r\n") {
			return fmt.Errorf("%s is empty, or has blanks in it; %s", what, where)
		}
		return nil
	}
}

func checkAES(s relay.Secret) error {
	_, err := aesKey(s)
	return err
}

func checkCorp(v string) error {
	other := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }
	if len(v) < 4 || len(v) > 64 || strings.ContainsFunc(v, other) {
		return fmt.Errorf("%q: want the corporation's id, like ww0123456789abcdef", v)
	}
	return nil
}

func checkAgent(v string) error {
	if n, err := strconv.ParseUint(v, 10, 32); err != nil || strconv.FormatUint(n, 10) != v {
		return fmt.Errorf("%q: want the application's AgentId, a number", v)
	}
	return nil
}

// checkID returns an error unless id names a corporation and a user of it.
func checkID(id string) error {
	if corp, user, _ := strings.Cut(id, ":"); checkCorp(corp) != nil || !isUser(user) {
		return errors.New("people are known by corporation and user, like ww0123456789abcdef:ann")
	}
	return nil
}

// user returns the person of a chat in this corporation; ok is false for any other chat.
func (p *Bot) user(chat relay.ChatID) (string, bool) {
	corp, user, ok := strings.Cut(string(chat), ":")
	return user, ok && corp == p.corp && isUser(user)
}

func (p *Bot) ID() relay.Bot { return p.bot }

func (p *Bot) Status() platforms.Status {
	s := p.status.Get()
	if why := p.trouble.Load(); why != nil && s.State == platforms.Connected {
		s.State, s.Reason = platforms.Degraded, "the newest answer was refused: "+*why
	}
	return s
}

// Descriptor implements platforms.Bot.
func (p *Bot) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform: Name, Label: "WeCom", MaxMessageLength: maxText, LenUnit: relay.LenChars, MarkdownDialect: "plain", Emoji: "💬",
	}
}

// Run implements platforms.Bot.
func (p *Bot) Run(ctx context.Context, in platforms.Inbox) error {
	defer p.api.calls.HTTP.CloseIdleConnections()
	return p.watch.Run(ctx, func(ctx context.Context) {
		p.feed.Run(ctx, in, p.status.StuckAfter("what WeCom posts cannot be stored; WeCom posts it again"))
	})
}

// look asks WeCom for an access token, which shows whether the credentials are accepted.
func (p *Bot) look(ctx context.Context) error {
	_, err := p.api.access(ctx, "")
	return err
}

// judge returns the state of the bot, and its reason, when WeCom gives no access token.
func judge(f *httpcall.Fault) (platforms.State, string) {
	if f.Code == codeBadSecret || f.Code == codeBadCorp {
		return platforms.BadCredentials, "WeCom does not accept corp_id with this secret"
	}
	return platforms.Degraded, troubled(f)
}

// troubled returns, in words for the operator, why WeCom refuses requests or does not answer.
func troubled(f *httpcall.Fault) string {
	switch {
	case isStale(f):
		return "WeCom does not accept the access token that it gave"
	case f.Code == codeAddress:
		if from := addressIn(f.Message); from != "" {
			return "WeCom does not trust this address: add " + from + " to trusted IPs of the application"
		}
		return "WeCom does not trust this address: add it to trusted IPs of the application"
	}
	return "WeCom cannot be reached: " + f.Error()
}
