// Package platforms is the plug of a chat network: what every network must do (Bot), what else it may be able to do
// (the interfaces in abilities.go), what it is given (Inbox), and how the binary lists it (Network).
//
// The list of networks in this binary is cli/networks.go. relay/hub decides who may do what.
//
// Invariants every platform keeps (platforms/platformtest checks them):
//
//  1. The network's cursor moves past an event only after Inbox.Accept returned nil for it.
//  2. Events of one chat are handed in in order, one batch at a time.
//  3. Run returns only after everything it started has ended.
//  4. An action that certainly was not sent is relay.NotSent; everything unclear is relay.MaybeSent.
//  5. No error, log line, status or event contains the credential.
package platforms

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Bot is one account on one network.
type Bot interface {
	// ID returns the account of the credential, without asking the network. It is constant.
	ID() relay.Bot

	// Descriptor returns the abilities of the network. Describe replaces its SupportedOps, SupportsEdit,
	// SupportsDraftStreaming and SupportsContext by what the bot's interfaces say. It is constant.
	Descriptor() relay.Descriptor

	// Status returns the state of the connection now. It may be called from any goroutine, and must not block.
	Status() Status

	// Run connects, hands events to in and repairs the connection. It returns nil once ctx ended, or an error
	// that wraps relay.ErrBadCredentials once the network rejected the credential; then the status is
	// BadCredentials or Stopped. It is called once.
	Run(ctx context.Context, in Inbox) error

	// Send posts a message of any length, whether or not Run is running. It may be called from any goroutine, and
	// several times at once for different chats; the caller keeps the order within a chat. A message that cannot leave
	// before ctx's deadline is refused as not sent, with RetryAfter if known. Errors are *relay.ActionError.
	Send(ctx context.Context, a relay.Send) (relay.Result, error)
}

// Inbox receives the events of a platform.
type Inbox interface {
	// Accept returns nil once everything in b is on disk or deliberately dropped; only then may the platform
	// confirm it to the network. On an error nothing of b is stored, and the platform hands in the same batch
	// again, after a pause. It may block on the disk. A bot hands in one batch at a time.
	Accept(ctx context.Context, b Batch) error

	// Cursor returns the Cursor of the last accepted Batch that had one, also from before a restart; nil if there is
	// none.
	Cursor(ctx context.Context) ([]byte, error)
}

// Batch holds the events of one answer of the network. It is stored in one transaction.
type Batch struct {
	Events       []relay.Event
	Undecodable  []Undecodable   // kept in quarantine
	Moves        []Move          // of chats that got a new id; they take effect before Events
	Roster       []RosterChange  // they take effect before Events
	Capabilities []Capability    // that came in Events, kept only for the instances that receive the event
	Receipts     []relay.Receipt // of Events, each stored with its event or not at all
	Forwards     []relay.Forward // each belongs to one of Events, named by its id: gateways are sent the forward
	// Refused is called, at most once for each press that reaches nobody, with the text for the person: as soon as it
	// is known that nobody gets the press, which may be before the commit. It must not block. Nil: nobody wants to know.
	Refused func(press relay.EventID, words string)
	// Undecided is called, before Accept returns, for a press of which it is not known yet whether it reaches anybody:
	// Refused may be called later, or never. It must not block. Nil: nobody wants to know.
	Undecided func(press relay.EventID)
	// Cursor, when not nil, is stored with the batch for Inbox.Cursor. If the batch has nothing else to store and Save is
	// false, the cursor may be written up to a minute later: after a crash the store may have an older one.
	Cursor []byte
	Save   bool
}

// Capability is a credential that came inside an event and allows answers to that event as the shared bot. It never
// reaches a gateway: the hub uses it through the platform's Responder.
type Capability struct {
	Event relay.EventID // the event it came in
	Kind  string        // "discord.interaction_token"
	ID    string        // the message id by which a Send's ReplyTo names this capability
	// Placeholder: the person sees a placeholder, which the first answer replaces and Discard takes away.
	Placeholder bool
	Token       relay.Secret
	ExpiresAt   time.Time
}

// Directory is an Inbox that knows which chats matter: those with a grant or a conversation. A platform asks its
// network for messages that it missed in these.
type Directory interface {
	Chats(ctx context.Context) ([]relay.Place, error)
	// Seen reports for each event whether it was stored in the last three days, so that handing it in again would do
	// nothing. It does not know about dropped events.
	Seen(ctx context.Context, events []relay.EventID) ([]bool, error)
}

// People is an Inbox that knows who is linked.
type People interface {
	// Linked reports whether the user's messages go to an instance.
	Linked(ctx context.Context, user relay.UserID) (bool, error)
}

// Undecodable is a payload that could not be turned into an event.
type Undecodable struct {
	Raw []byte
	Err error // without credentials and what people wrote
}

// Move says that a chat's id changed for good. The ids of earlier messages mean nothing, or others, in the chat
// under its new id.
type Move struct{ From, To relay.ChatID }

// RosterChange says that earlier answers about visibility no longer hold. An empty field means all.
type RosterChange struct {
	Scope relay.ScopeID
	Chat  relay.ChatID
	User  relay.UserID
}

// State is the state of a bot's connection.
type State string

// The states a user sees. Connected means that updates flow, not that a start returned.
const (
	Starting       State = "starting"
	Connecting     State = "connecting"
	Connected      State = "connected"
	Degraded       State = "degraded" // with a reason: another poller, a missing intent, a stale socket
	BadCredentials State = "bad_credentials"
	Stopped        State = "stopped"
)

// Status is a bot's connection at one moment.
type Status struct {
	State State
	// Reason says why the state is not Connected, or what else is to be done, in words on which an operator can act. It
	// contains no secrets.
	Reason string
	// Name is the bot's handle on the network, without "@"; empty until known.
	Name string
	// LastEventAt is when the network last sent an event, by our clock; zero: none since the start.
	LastEventAt time.Time
	// Since is when the state began.
	Since time.Time
	// RetryAt is when the bot tries again to connect; zero: it does not wait.
	RetryAt time.Time
}

// Network is a network this binary speaks.
type Network struct {
	Name  relay.PlatformID
	Label string
	Keys  []Key // of a [[bots]] table, beside platform, api_base and those of the credentials
	// Token is the credential's name in the settings: NAME_file and NAME_env. Empty means "token".
	Token string
	// TokenHelp describes the credential, for `check --help`; empty: a bot's token.
	TokenHelp string
	// Secrets are further credentials, each as NAME_file or NAME_env.
	Secrets []SecretKey
	// CheckToken returns what is wrong with a token's form, without asking the network and without repeating the token.
	// Nil: the network needs no token.
	CheckToken func(relay.Secret) error
	// CheckID returns why a text cannot be the id of a user or a chat, worded for the person who typed it. Nil: every
	// text can.
	CheckID func(string) error
	// IsHandle reports whether a text that is not an id may be a person's account name, or "@" and that name. Nil: none
	// may.
	IsHandle func(string) bool
	// Unscoped: the network has no scopes.
	Unscoped bool
	// Guide says where a person makes a bot and finds its token, for setup. Empty: more than a token is needed, and setup
	// does not ask for it.
	Guide string
	// Formless: the network's tokens have no recognisable form.
	Formless bool
	// Login gets a token for the bot that o is to open, by its account's password, which is used for nothing else. Nil: bots
	// have no password.
	Login func(ctx context.Context, o Options, password relay.Secret) (relay.Secret, error)
	// Own: people talk on this program's own pages, and are linked there without being asked; no [[bots]] table makes the bot.
	Own bool
	// Open makes a bot from checked options. It does no I/O.
	Open func(Options) (Bot, error)
}

// Key is one setting of a network's bots.
type Key struct {
	Name    string // as in the configuration file
	Default string // used when absent
	Help    string // one line, for `check --help`
	Check   func(value string) error
	Path    bool // the value is the path of a file or folder: Open gets it as an absolute path
	Outside bool // the value is a URL that is called through Options.Outside
	List    bool // it may also be a list of texts, whose value has commas between them
}

// SecretKey is one further credential of a network's bots.
type SecretKey struct {
	Name  string
	Help  string
	Check func(relay.Secret) error // returns what is wrong with its form, without repeating it
}

// Options are given to a bot when it is opened.
type Options struct {
	Token   relay.Secret
	APIBase string            // base URL without a trailing slash; empty: the network's own
	Values  map[string]string // by the name of a Key
	Log     *slog.Logger
	// Secrets has a value for each SecretKey that was given.
	Secrets map[string]relay.Secret
	// Transport carries HTTP; nil: the network's own. Tests replace it.
	Transport http.RoundTripper
	// Outside carries HTTP to addresses from a setting. It opens only public addresses, and those that the operator
	// allowed. Nil means the network's own.
	Outside http.RoundTripper
	// PublicURL is the address at which this program is reached from outside, without a trailing slash; empty: not set.
	PublicURL string
}
