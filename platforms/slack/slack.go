// Package slack is one Slack app in one workspace behind platforms.Bot. It takes events over Socket Mode, so that it
// needs no public address, and carries actions out over the Web API (package rest). slack-go provides the types. The
// socket and the HTTP calls are its own, because the library acknowledges events before they are on disk, and does not
// distinguish a request that never left from one whose outcome is unknown.
//
// A thread is not a chat of its own: the chat is the channel, and the root names the thread. A message outside of
// threads has none: newer gateways make a thread of it themselves, by their operator's settings.
//
// Invariants, besides those of package platforms:
//
//  1. An event is acknowledged to Slack only after Inbox.Accept returned nil for it. A press and a slash command are
//     acknowledged at once, because Slack shows people a fault after three seconds.
//  2. When Slack asks to connect again, Slack has greeted the next socket before the old one is closed.
//  3. Neither token is in an event, an attachment's reference, an error or the log.
//  4. A request that may have been carried out is never repeated: Slack takes no idempotency key.
package slack

import (
	_ "embed" // of the manifest
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/slack/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/slack/rest"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Name is the platform's name in the configuration and on the wire.
const Name relay.PlatformID = "slack"

const (
	secretApp = "app_token"

	keyAnswerWait = "answer_timeout"
	keyRetryWait  = "retry_wait"
	keyRetryMax   = "retry_max"
)

// Network is Slack, for the list of networks in the binary.
var Network = platforms.Network{
	Name:       Name,
	Label:      "Slack",
	Keys:       keys(),
	TokenHelp:  "the app's Bot User OAuth Token, which begins with xoxb-",
	CheckToken: checkToken,
	Secrets: []platforms.SecretKey{
		{Name: secretApp, Help: "the app's token for its socket, which begins with xapp-", Check: checkAppToken},
	},
	CheckID: checkID,
	Guide:   guide,
	Open:    func(o platforms.Options) (platforms.Bot, error) { return open(o) },
}

// manifest tells Slack how to make an app with everything that our bot needs.
//
//go:embed manifest.yaml
var manifest string

// guide tells a person what to do at Slack.
var guide = "On https://api.slack.com/apps choose Create New App, From a manifest, your workspace, and paste this:\n\n" + manifest +
	"\nUnder Install App install the app: there is its Bot User OAuth Token, xoxb-…, which is asked for first. " +
	"Under Basic Information, App-Level Tokens, make one with the scope connections:write: xapp-…, which is asked for next."

func keys() []platforms.Key {
	return []platforms.Key{
		platforms.PreviewsKey(),
		platforms.DurationKey(keyAnswerWait, "15s",
			"how long Slack may take to open a socket, to greet on it, or to answer a ping"),
		platforms.DurationKey(keyRetryWait, "1s", "the first pause after a lost connection; doubles with each further failure"),
		platforms.DurationKey(keyRetryMax, "1m", "the longest pause after a lost connection"),
	}
}

// The abilities of a Slack bot.
var (
	_ platforms.Bot            = (*Bot)(nil)
	_ platforms.Editor         = (*Bot)(nil)
	_ platforms.Typer          = (*Bot)(nil)
	_ platforms.Reacter        = (*Bot)(nil)
	_ platforms.Deleter        = (*Bot)(nil)
	_ platforms.ChatInformer   = (*Bot)(nil)
	_ platforms.Limited        = (*Bot)(nil)
	_ platforms.Prompter       = (*Bot)(nil)
	_ platforms.MediaSender    = (*Bot)(nil)
	_ platforms.MediaFetcher   = (*Bot)(nil)
	_ platforms.Responder      = (*Bot)(nil)
	_ platforms.Historian      = (*Bot)(nil)
	_ platforms.Roster         = (*Bot)(nil)
	_ platforms.Manager        = (*Bot)(nil)
	_ platforms.Locator        = (*Bot)(nil)
	_ platforms.DirectChats    = (*Bot)(nil)
	_ platforms.MessageEventer = (*Bot)(nil)
	_ platforms.AuthorTeller   = (*Bot)(nil)
	_ platforms.CommandKnower  = (*Bot)(nil)
	_ platforms.Examiner       = (*Bot)(nil)
	_ platforms.Stander        = (*Bot)(nil)
)

// Bot is one app in one workspace.
type Bot struct {
	// Set once, by open.
	bot    relay.Bot
	token  relay.Secret // of the bot
	base   string       // of the API, as configured
	opts   platforms.Settings
	log    *slog.Logger
	status *status.Tracker
	memory *memory
	app    *rest.Client // a client with the app's own token, for sockets
	// Sockets and files have connections of their own, so that a call that hangs there does not hold up messages.
	sockets *httpcall.Client
	files   *httpcall.Client
	asides  chan aside    // capacity maxWhispers
	check   time.Duration // after how long another program's socket is first looked for again

	*writer                // sends messages
	*roster                // who sees and who manages what
	platforms.CommandNames // recognises a gateway's commands
}

func open(o platforms.Options) (*Bot, error) { return openAt(o, slacks) }

// openAt is open with a given pace of calls to Slack.
func openAt(o platforms.Options, at pace) (*Bot, error) {
	opts, err := o.Checked(checkToken, "an API like Slack's, like http://127.0.0.1:8081/api", keys())
	if err != nil {
		return nil, err
	}
	if err := checkAppToken(o.Secrets[secretApp]); err != nil {
		return nil, err
	}
	app := o.Secrets[secretApp]
	p := &Bot{
		bot:     relay.Bot{Platform: Name, ID: appID(app)},
		token:   o.Token,
		base:    o.APIBase,
		opts:    opts,
		log:     o.Log,
		status:  status.New(""),
		memory:  newMemory(),
		app:     rest.New(app, o.APIBase, o.Transport, nil),
		sockets: httpcall.New(app, o.Transport, 0),
		files:   httpcall.New(o.Token, o.Transport, 0),
		asides:  make(chan aside, maxWhispers),
		check:   at.check,
		writer:  newWriter(o, opts, at),
	}
	p.roster = &roster{
		workspace: newWorkspace(p.writer.rest),
		team:      func() relay.ScopeID { return relay.ScopeID(p.memory.read().Self.Team) },
	}
	return p, nil
}

// ID implements platforms.Bot. The app token names the app.
func (p *Bot) ID() relay.Bot { return p.bot }

func (p *Bot) Status() platforms.Status { return p.status.Get() }

// Descriptor implements platforms.Bot, with the values of the gateway's own Slack adapter.
func (p *Bot) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform:         Name,
		Label:            "Slack",
		MaxMessageLength: dialect.MaxText,
		LenUnit:          relay.LenChars,
		MarkdownDialect:  "slack",
		SupportsThreads:  true,
		Emoji:            "💼",
	}
}

var (
	appTokenForm = regexp.MustCompile(`^xapp-1-(A[A-Z0-9]+)-[0-9]+-[A-Za-z0-9]+$`)
	idForm       = regexp.MustCompile(`^[A-Z][A-Z0-9]+$`)
)

// appID returns the id of the app, which is a part of its token.
func appID(token relay.Secret) relay.BotID {
	if m := appTokenForm.FindStringSubmatch(token.RevealString()); m != nil {
		return relay.BotID(m[1])
	}
	return ""
}

func checkToken(token relay.Secret) error {
	const where = "; the app's page shows it under Install App, as the Bot User OAuth Token, and it begins with xoxb-"
	s := token.RevealString()
	switch {
	case s == "":
		return errors.New("the Slack token is empty" + where)
	case strings.ContainsAny(s, " \t\r\n"):
		return errors.New("the Slack token contains blanks or line breaks" + where)
	case strings.HasPrefix(s, "xapp-"):
		return errors.New("that is the app's token for its socket, which belongs into app_token_file" + where)
	case !strings.HasPrefix(s, "xoxb-") || len(s) < len("xoxb-")+1:
		return errors.New("the Slack token does not begin with xoxb-" + where)
	}
	return nil
}

func checkAppToken(token relay.Secret) error {
	const where = "; the app's page makes it under Basic Information, App-Level Tokens, with the scope connections:write, " +
		"and it begins with xapp-1-A"
	s := token.RevealString()
	switch {
	case s == "":
		return errors.New("the Slack app token is empty" + where)
	case strings.HasPrefix(s, "xoxb-"):
		return errors.New("that is the bot's token, which belongs into token_file" + where)
	case !appTokenForm.MatchString(s):
		return errors.New("the Slack app token is not of the form xapp-1-A…-…-…" + where)
	}
	return nil
}

// checkID refuses names: Slack knows people and channels by ids.
func checkID(id string) error {
	if !idForm.MatchString(id) {
		return errors.New("the ids of Slack look like U024BE7LH (a person) and C024BE91L (a channel): " +
			"a profile's menu has Copy member ID, and a channel's details end with its id")
	}
	return nil
}
