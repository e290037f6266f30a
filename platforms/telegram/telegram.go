// Package telegram is one Telegram bot behind platforms.Bot. It polls the Bot API for updates, or has Telegram post
// them, turns them into events, and carries actions out. telegram-bot-api is its transport. The types and the poll loop
// are its own, because the library's types know no topics, and its loop has no cursor that waits for the disk.
//
// An operator with a public address may have updates posted, which saves only the open request. The web hook's secret
// is drawn at each start and stored nowhere: until Telegram knows the new secret, its requests are refused, and
// Telegram repeats them for a day. A bot that polls removes a web hook that this program set; one that somebody else
// has set stays. Nothing is lost or comes twice when an operator changes from one way to the other: both use one
// reader, and the poll's cursor does not change while updates are posted. Telegram posts the next update only after the
// one before was stored. So with a web hook albums and pasted texts are not joined, and a press is answered late while
// the disk stalls.
//
// Invariants, besides those of package platforms:
//
//  1. An update is confirmed to Telegram (by the next offset, or by the answer to its post) only after Inbox.Accept
//     returned nil for its batch.
//  2. An update that makes no sense goes raw into quarantine, and the others of its batch go on.
//  3. The state is Connected only while the newest getUpdates was answered, or Telegram's newest word of the web
//     hook is that it is ours.
//  4. Every error of the API is an httpcall.Fault, free of the token.
//  5. An action whose request may have left is never repeated. A request with a file may have left once its last byte
//     was taken.
//  6. The address of a file holds the token: no error, log line or redirect has it.
package telegram

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/platforms/telegram/dialect"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Name is the platform's name in the configuration and on the wire.
const Name relay.PlatformID = "telegram"

// The settings of a Telegram bot.
const (
	keyUpdates       = "updates"
	keyEdits         = "edits"
	keyDrafts        = "drafts"
	keyPollTimeout   = "poll_timeout"
	keyAnswerTimeout = "answer_timeout"
	keyRetryWait     = "retry_wait"
	keyRetryMax      = "retry_max"
	keyConflictWait  = "conflict_wait"
	keyFilesDir      = "files_dir"
)

// Network is Telegram, for the list of networks in the binary.
var Network = platforms.Network{
	Name:       Name,
	Label:      "Telegram",
	Keys:       keys,
	CheckToken: checkToken,
	CheckID:    checkID,
	Unscoped:   true,
	Guide:      "In Telegram write /newbot to @BotFather; its last message holds the token. The whole message may be pasted.",
	Open:       func(o platforms.Options) (platforms.Bot, error) { return open(o) },
}

var keys = []platforms.Key{
	{
		Name: keyUpdates, Default: "poll", Check: platforms.OneOf("poll", "webhook"),
		Help: `how updates come: "poll" for them, or let Telegram post them to public_url, as a "webhook"`,
	},
	{
		Name: keyEdits, Default: "drop", Check: platforms.OneOf("drop", "as_new"),
		Help: `a person's edit of an old message: "drop" it, or hand it in "as_new" message`,
	},
	{
		Name: keyDrafts, Default: "false", Check: platforms.OneOf("true", "false"),
		Help: `whether answers in the making are shown in private chats ("true" or "false"); some clients flicker`,
	},
	{
		Name: keyPollTimeout, Default: "50s", Check: checkPollTimeout,
		Help: "how long Telegram may hold a request for updates open: whole seconds, 1s to 50s",
	},
	platforms.PreviewsKey(),
	platforms.DurationKey(keyAnswerTimeout, "15s",
		"how long beyond poll_timeout an answer may take before the connection counts as dead"),
	platforms.DurationKey(keyRetryWait, "1s",
		"the first pause after a failed request for updates; doubles with each further failure"),
	platforms.DurationKey(keyRetryMax, "1m", "the longest pause after a failed request for updates"),
	platforms.DurationKey(keyConflictWait, "30s", "the pause while another program polls this bot, or a web hook is set for it"),
	{
		Name: keyFilesDir, Path: true, Check: func(string) error { return nil },
		Help: "the folder in which a Bot API server on this machine (--local) keeps files; nothing else is read there",
	},
}

// The abilities of a Telegram bot.
var (
	_ platforms.Bot            = (*Bot)(nil)
	_ platforms.Editor         = (*Bot)(nil)
	_ platforms.Typer          = (*Bot)(nil)
	_ platforms.Reacter        = (*Bot)(nil)
	_ platforms.Deleter        = (*Bot)(nil)
	_ platforms.ChatInformer   = (*Bot)(nil)
	_ platforms.Limited        = (*Bot)(nil)
	_ platforms.ThreadCreator  = (*Bot)(nil)
	_ platforms.ThreadRenamer  = (*Bot)(nil)
	_ platforms.Prompter       = (*Bot)(nil)
	_ platforms.Drafter        = (*Bot)(nil)
	_ platforms.Historian      = (*Bot)(nil)
	_ platforms.Roster         = (*Bot)(nil)
	_ platforms.Manager        = (*Bot)(nil)
	_ platforms.Locator        = (*Bot)(nil)
	_ platforms.DirectChats    = (*Bot)(nil)
	_ platforms.DeepLinker     = (*Bot)(nil)
	_ platforms.MessageEventer = (*Bot)(nil)
	_ platforms.Hook           = (*Bot)(nil)
	_ platforms.MediaSender    = (*Bot)(nil)
	_ platforms.MediaFetcher   = (*Bot)(nil)
	_ platforms.Examiner       = (*Bot)(nil)
)

// Bot is one Telegram bot.
type Bot struct {
	// Set once, by open.
	bot      relay.Bot
	base     string // of the API, as configured
	opts     platforms.Settings
	previews platforms.Previews
	log      *slog.Logger
	client   *client
	turns    *sender.Turns
	status   *status.Tracker
	desk     *desk
	topics   *topics
	history  *history
	// hookURL is where Telegram posts updates, or did before the bot polled; empty: there is no such address.
	hookURL   string
	hooked    *hooked       // nil: the bot polls
	lookEvery time.Duration // the pause between two checks of the web hook; tests shorten it

	*examiner // asks Telegram about the bot

	cutting sync.Mutex // held while a long text is rendered and cut
}

func open(o platforms.Options) (*Bot, error) {
	opts, err := o.Checked(checkToken, "a Bot API server, like http://127.0.0.1:8081", keys)
	if err != nil {
		return nil, err
	}
	id, _, _ := strings.Cut(o.Token.RevealString(), ":")
	p := &Bot{
		bot:       relay.Bot{Platform: Name, ID: relay.BotID(id)},
		base:      o.APIBase,
		opts:      opts,
		previews:  opts.Previews(),
		log:       o.Log,
		client:    newClient(o.Token, o.APIBase, o.Transport),
		turns:     sender.New(rates, explained, checkChat),
		status:    status.New(""),
		lookEvery: lookEvery,
		topics:    newTopics(),
		history:   newHistory(),
	}
	p.desk = newDesk(p.client, o.Log)
	if o.PublicURL != "" {
		p.hookURL = o.PublicURL + platforms.HookPath(p.bot)
	}
	if opts[keyUpdates] == "webhook" {
		if p.hooked, err = openHook(o); err != nil {
			return nil, err
		}
	}
	p.examiner = &examiner{bot: p.bot, base: p.base, client: p.client, status: p.status, hookURL: p.hookURL, posted: p.hooked != nil}
	return p, nil
}

// ID implements platforms.Bot. The token begins with the bot's id.
func (p *Bot) ID() relay.Bot { return p.bot }

func (p *Bot) Status() platforms.Status { return p.status.Get() }

// checkPollTimeout returns an error unless v is a time that the API accepts: whole seconds, 50 at most.
func checkPollTimeout(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < time.Second || d > 50*time.Second || d%time.Second != 0 {
		return fmt.Errorf("%q: want whole seconds from 1s to 50s", v)
	}
	return nil
}

// checkID refuses names: the Bot API knows users and chats by numbers.
func checkID(id string) error {
	if n, err := strconv.ParseInt(id, 10, 64); err != nil || n == 0 || strconv.FormatInt(n, 10) != id {
		return errors.New("the ids of Telegram are numbers, and groups have negative ones; " +
			"hermes-connector explain shows the ids of those who wrote")
	}
	return nil
}

// checkToken accepts "<digits>:<letters, digits, _ and ->" of any length, for test servers have short tokens.
func checkToken(token relay.Secret) error {
	const (
		form = "a token looks like 123456789:AA…, a number, a colon and 35 letters and digits, " +
			"and is the one line of BotFather's message that begins with digits"
		digits  = "0123456789"
		letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-"
	)
	s := token.RevealString()
	id, secret, colon := strings.Cut(s, ":")
	fault := ""
	switch {
	case s == "":
		fault = "is empty"
	case strings.ContainsAny(s, " \t\r\n"):
		fault = "contains blanks or line breaks, as if BotFather's whole message was pasted"
	case !colon:
		fault = "has no colon"
	case id == "" || strings.Trim(id, digits) != "":
		fault = "does not begin with a number and a colon"
	case secret == "" || strings.Trim(secret, digits+letters) != "":
		fault = "has characters after the colon that no token has"
	default:
		return nil
	}
	return errors.New("the Telegram token " + fault + "; " + form)
}

// Descriptor implements platforms.Bot, with the values of the gateway's own Telegram adapter.
func (p *Bot) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform:         Name,
		Label:            "Telegram",
		MaxMessageLength: dialect.MaxText,
		LenUnit:          relay.LenUTF16,
		MarkdownDialect:  "markdown_v2",
		SupportsThreads:  true,
		Emoji:            "✈️",
	}
}

// rates keep a bot within Telegram's limit, which is about 30 messages a second. The limit in one chat is not
// published, and differs, so there Telegram's "retry after" decides: a guess could refuse messages that Telegram would
// accept. The rates of chats and instances only keep one busy gateway from using up the bot for all others.
var rates = ratelimit.Rates{
	Bot:      ratelimit.Rate{Every: 40 * time.Millisecond, Burst: 5}, // at most 30 in a second
	Chat:     ratelimit.Rate{Every: 100 * time.Millisecond, Burst: 60},
	Share:    ratelimit.Rate{Every: time.Second, Burst: 5},
	Instance: ratelimit.Rate{Every: 125 * time.Millisecond, Burst: 3},
}
