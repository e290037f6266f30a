// Package webhook is a bot that programs talk to over Standard Webhooks 1.0: a doorbell, a build server, a
// script with curl. What they post becomes a message; what the agent answers is posted to reply_url.
//
// Whoever has the hook's secret speaks as the hook: a person of it is "name" or "name:user", so one hook's
// secret cannot speak as another hook's people.
//
// Invariants, besides those of package platforms:
//
//  1. Until a request is verified, only the parts that its signature needs are read.
//  2. An answer has the same webhook-id over all tries, so that the receiver can tell a repetition.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/inbox"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Name is the platform's name in the configuration and on the wire, which gateways know.
const Name relay.PlatformID = "webhook"

const (
	keyName     = "name"
	keyReplyURL = "reply_url"
	maxText     = 65536 // characters
)

// Network is web hooks, for the list of networks in the binary.
var Network = platforms.Network{
	Name:       Name,
	Label:      "Web hook",
	Keys:       settings(),
	Token:      "secret",
	TokenHelp:  "in place of token_file: lines of whsec_…, as hermes-connector webhook secret writes them; all verify, the first signs",
	CheckToken: func(s relay.Secret) error { _, err := keys(s); return err },
	Unscoped:   true,
	Open:       func(o platforms.Options) (platforms.Bot, error) { return open(o) },
}

func settings() []platforms.Key {
	return []platforms.Key{
		{Name: keyName, Check: checkHook, Help: "the hook's name: small letters, digits and '-', at most 32; its path is /webhooks/webhook/NAME"},
		{Name: keyReplyURL, Check: checkReplyURL, Outside: true, Help: "where the agent's answers are posted, signed; none: the agent cannot answer"},
	}
}

// Bot is one hook.
type Bot struct {
	inbox.People
	// Set once, by open.
	bot    relay.Bot
	name   string
	keys   [][]byte // the first signs
	reply  string   // URL; empty: none
	out    *httpcall.Client
	turns  *sender.Turns
	status *status.Tracker
	feed   *inbox.Feed
	gone   atomic.Bool // the receiver wants no more answers
}

var (
	_ platforms.Bot  = (*Bot)(nil)
	_ platforms.Hook = (*Bot)(nil)
)

func open(o platforms.Options) (*Bot, error) {
	keys, err := keys(o.Token)
	if err != nil {
		return nil, err
	}
	opts, err := o.Settings(settings())
	if err != nil {
		return nil, err
	}
	bot := relay.Bot{Platform: Name, ID: relay.BotID(opts[keyName])}
	p := &Bot{
		bot: bot, name: opts[keyName], keys: keys, reply: opts[keyReplyURL], out: httpcall.New(o.Token, o.Outside, maxAnswer),
		status: status.New(opts[keyName]), feed: inbox.NewFeed(),
	}
	p.People = inbox.People{Platform: Name, With: p.caller}
	p.turns = sender.New(rates(), explained, p.CheckChat)
	return p, nil
}

func checkHook(v string) error {
	switch {
	case v == "":
		return errors.New("name is missing")
	case v == "agents":
		return errors.New(`"agents" is reserved`)
	case len(v) > 32 || strings.Trim(v, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return fmt.Errorf("%q: want at most 32 small letters, digits and '-'", v)
	}
	return nil
}

func checkReplyURL(v string) error {
	u, err := url.Parse(v)
	if v != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "") {
		return errors.New("want the URL that answers are posted to")
	}
	return nil
}

// caller returns the person of a chat: every chat belongs to one caller.
func (p *Bot) caller(chat relay.ChatID) (relay.UserID, bool) {
	user, _, _ := strings.Cut(string(chat), "/")
	hook, _, _ := strings.Cut(user, ":")
	return relay.UserID(user), hook == p.name
}

func (p *Bot) ID() relay.Bot { return p.bot }

func (p *Bot) Status() platforms.Status { return p.status.Get() }

// Descriptor implements platforms.Bot.
func (p *Bot) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform: Name, Label: "Web hook", MaxMessageLength: maxText, LenUnit: relay.LenChars, MarkdownDialect: "markdown", Emoji: "🔗",
	}
}

// Run implements platforms.Bot. No server has to accept the hook's secret, so the bot is connected at once.
func (p *Bot) Run(ctx context.Context, in platforms.Inbox) error {
	defer p.out.HTTP.CloseIdleConnections()
	p.status.Set(platforms.Connected, "")
	p.feed.Run(ctx, in, p.status.StuckAfter("what callers post cannot be stored; they are told to post it again"))
	p.status.Set(platforms.Stopped, "")
	return nil
}
