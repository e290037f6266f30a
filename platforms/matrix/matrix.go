// Package matrix is one account of a Matrix homeserver behind platforms.Bot. It asks the client-server API for events
// (GET /sync), converts them, and carries actions out. The types are those of mautrix-go's packages event and id. The
// calls and the loop are ours: that library's loop moves on before the events are on disk, and its client does not
// distinguish a request that certainly was not sent from one that may have been.
//
// Rooms are chats, threads are not: replies go to the thread that metadata.thread_id names. There is no encryption: in
// an encrypted room nothing is read, and only one notice is written that says so.
//
// Invariants, besides those of package platforms:
//
//  1. A sync continues from a position only after Inbox.Accept returned nil for all events before it.
//  2. An event that makes no sense is put into quarantine, and the other events of its answer are still handed in.
//  3. Every send has a transaction id, which makes a repetition harmless. If its outcome is unclear, a sync that shows
//     the transaction proves that it was carried out.
//  4. Only that one notice is sent to a room that may be encrypted.
//  5. A chat moves only if both rooms say so: the old one's tombstone, and the new one's m.room.create.
//  6. Every error of the API is an httpcall.Fault, free of the token.
package matrix

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"maunium.net/go/mautrix/id"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/matrix/dialect"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/platforms/recent"
	"github.com/hermes-connector/hermes-connector/platforms/sender"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Name is the platform's name in the configuration and on the wire.
const Name relay.PlatformID = "matrix"

// The settings of a Matrix bot.
const (
	keyHomeserver    = "homeserver"
	keyUser          = "user_id"
	keyPollTimeout   = "poll_timeout"
	keyAnswerTimeout = "answer_timeout"
	keyRetryWait     = "retry_wait"
	keyRetryMax      = "retry_max"
)

// Network is Matrix, for the list of networks in the binary.
var Network = platforms.Network{
	Name:       Name,
	Label:      "Matrix",
	Keys:       keys,
	TokenHelp:  "an access token of the bot's account",
	CheckToken: checkToken,
	CheckID:    checkID,
	Guide:      "Make an account for the bot at your homeserver: as its operator, or in a client such as Element.",
	Formless:   true,
	Login:      login,
	Open:       func(o platforms.Options) (platforms.Bot, error) { return open(o) },
}

var keys = []platforms.Key{
	{
		Name: keyHomeserver, Check: checkHomeserver,
		Help: "the homeserver: its address, like https://matrix.example.net, or the server's name, like example.net, whose .well-known is asked",
	},
	{
		Name: keyUser, Check: func(v string) error {
			if !isUser(v) {
				return errors.New("want the id of the bot's account, like @hermes:example.net")
			}
			return nil
		},
		Help: "the bot's account, like @hermes:example.net",
	},
	{
		Name: keyPollTimeout, Default: "30s", Check: checkPollTimeout,
		Help: "how long the homeserver may hold a request for events open: whole seconds, 1s to 60s",
	},
	platforms.DurationKey(keyAnswerTimeout, "30s", "how long beyond poll_timeout an answer may take before the connection counts as dead"),
	platforms.DurationKey(keyRetryWait, "1s", "the first pause after a failed request for events; doubles with each further failure"),
	platforms.DurationKey(keyRetryMax, "1m", "the longest pause after a failed request for events"),
}

// The abilities of a Matrix bot.
var (
	_ platforms.Bot            = (*Bot)(nil)
	_ platforms.Editor         = (*Bot)(nil)
	_ platforms.Typer          = (*Bot)(nil)
	_ platforms.Reacter        = (*Bot)(nil)
	_ platforms.Deleter        = (*Bot)(nil)
	_ platforms.ChatInformer   = (*Bot)(nil)
	_ platforms.Limited        = (*Bot)(nil)
	_ platforms.MediaSender    = (*Bot)(nil)
	_ platforms.MediaFetcher   = (*Bot)(nil)
	_ platforms.Historian      = (*Bot)(nil)
	_ platforms.Roster         = (*Bot)(nil)
	_ platforms.Manager        = (*Bot)(nil)
	_ platforms.Locator        = (*Bot)(nil)
	_ platforms.DirectChats    = (*Bot)(nil)
	_ platforms.Sharer         = (*Bot)(nil)
	_ platforms.AuthorTeller   = (*Bot)(nil)
	_ platforms.MessageEventer = (*Bot)(nil)
	_ platforms.Rememberer     = (*Bot)(nil)
	_ platforms.CommandKnower  = (*Bot)(nil)
	_ platforms.Examiner       = (*Bot)(nil)
	_ platforms.Stander        = (*Bot)(nil)
)

// Bot is one account.
type Bot struct {
	*asker // asks the homeserver questions

	// Set once, by open.
	opts   platforms.Settings
	status *status.Tracker
	txns   *recent.Values[string, id.EventID]      // our transactions that a sync has shown
	talks  *recent.Values[thread, bool]            // whether the bot wrote in a thread
	marks  *recent.Values[reaction, id.EventID]    // the events of the bot's own reactions; empty: removed
	typing *recent.Values[relay.ChatID, time.Time] // until when a room shows that the bot types
	begin  string                                  // the position at which a bot without a stored one begins; empty: now. Tests set it.

	platforms.CommandNames // of all gateways

	cutting sync.Mutex // held while a long text is cut
}

// asker asks the homeserver about rooms and people, and changes nothing.
type asker struct {
	// Set once, by open.
	bot    relay.Bot
	me     id.UserID
	base   string // of the API, where it is configured apart from the homeserver
	log    *slog.Logger
	client *client
	turns  *sender.Turns
	rooms  *rooms
	heard  *recent.Values[relay.EventID, heard] // recent messages, for quotes
}

func open(o platforms.Options) (*Bot, error) {
	opts, err := o.Checked(checkToken, "a homeserver, like http://127.0.0.1:8008", keys)
	if err != nil {
		return nil, err
	}
	me, home := opts[keyUser], opts[keyHomeserver]
	if o.APIBase != "" {
		home = o.APIBase
	}
	return &Bot{
		asker: &asker{
			bot: relay.Bot{Platform: Name, ID: relay.BotID(me)}, me: id.UserID(me), base: o.APIBase, log: o.Log,
			client: newClient(o.Token, home, o.Transport),
			turns:  sender.New(rates, explained, checkChat),
			rooms:  newRooms(id.UserID(me)),
			heard:  recent.New[relay.EventID, heard](2000),
		},
		opts:   opts,
		status: status.New(""),
		txns:   recent.New[string, id.EventID](2000),
		talks:  recent.New[thread, bool](10_000),
		marks:  recent.New[reaction, id.EventID](10_000),
		typing: recent.New[relay.ChatID, time.Time](1000),
	}, nil
}

// ID implements platforms.Bot.
func (p *Bot) ID() relay.Bot { return p.bot }

// Status implements platforms.Bot.
func (p *Bot) Status() platforms.Status { return p.status.Get() }

// Descriptor implements platforms.Bot, with the values of the gateway's own Matrix adapter.
func (p *Bot) Descriptor() relay.Descriptor {
	return relay.Descriptor{
		Platform: Name, Label: "Matrix", MaxMessageLength: dialect.MaxText, LenUnit: relay.LenChars,
		MarkdownDialect: "markdown", SupportsThreads: true, Emoji: "💬",
	}
}

// rates keep one busy gateway from using up the bot for all others. How much a homeserver accepts from a user is its
// operator's choice; its "retry after" decides.
var rates = ratelimit.Rates{
	Bot:      ratelimit.Rate{Every: 50 * time.Millisecond, Burst: 10},
	Chat:     ratelimit.Rate{Every: 100 * time.Millisecond, Burst: 30},
	Share:    ratelimit.Rate{Every: time.Second, Burst: 5},
	Instance: ratelimit.Rate{Every: 125 * time.Millisecond, Burst: 3},
}

var serverName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?$`)

// checkHomeserver accepts an address over https, or of this machine, or the name of a server.
func checkHomeserver(v string) error {
	if serverName.MatchString(v) && !strings.Contains(v, "://") {
		return nil
	}
	if err := platforms.CheckBase(v, "a homeserver, like https://matrix.example.net, or a server's name, like example.net"); err != nil || v == "" {
		return errors.New("want the address of a homeserver, like https://matrix.example.net, or a server's name, like example.net")
	}
	u, err := url.Parse(v)
	if err == nil && u.Scheme == "http" && u.Hostname() != "localhost" && u.Hostname() != "127.0.0.1" && u.Hostname() != "::1" {
		return errors.New("plain http beyond this machine would show the token; use https, or, if the network is trusted, api_base and insecure = true")
	}
	return nil
}

func checkPollTimeout(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < time.Second || d > time.Minute || d%time.Second != 0 {
		return fmt.Errorf("%q: want whole seconds from 1s to 60s", v)
	}
	return nil
}

// checkToken accepts one word: homeservers have access tokens of many forms.
func checkToken(token relay.Secret) error {
	s := token.RevealString()
	switch {
	case s == "":
		return errors.New("the access token is empty")
	case len(s) < 8 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("this is no access token: it is one word, such as syt_… of Synapse; Element shows it under Settings, Help & About, Advanced")
	}
	return nil
}
