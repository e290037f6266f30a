// Package platforms is the socket a chat network plugs into: what every network must do
// (Platform), what it may be able to do besides (the ability interfaces in abilities.go), what
// it is given (Inbox), and how the binary lists it (Kind).
//
// It is not a registry: cli/kinds.go is the list of networks in this binary. It does not
// retry, log actions or decide who may do what; relay/hub does.
//
// Invariants every platform keeps (platforms/platformtest checks them):
//
//  1. The network's cursor moves past an event only after Inbox.Accept returned nil for it.
//  2. Events of one chat are handed in in order, one batch at a time.
//  3. Run returns only after everything it started has ended.
//  4. What certainly was not sent is relay.NotSent; everything unclear is relay.MaybeSent.
//  5. No error, log line, status or event contains the credential.
package platforms

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Platform is one bot on one network.
type Platform interface {
	// Bot is who the credential belongs to, known without asking the network. Constant.
	Bot() relay.Bot

	// Descriptor is what the network can do. SupportsEdit and SupportedOps are derived by
	// Describe from the abilities below; what Descriptor says about them is ignored. Constant.
	Descriptor() relay.Descriptor

	// Status is the truthful state of the connection now. Any goroutine; must not block.
	Status() Status

	// Run connects, hands events to in, repairs the connection, and blocks until ctx ends (then
	// it returns nil) or the network rejects the credential (then an error that wraps
	// relay.ErrBadCredentials; the status is BadCredentials or Stopped). It is called once.
	Run(ctx context.Context, in Inbox) error

	// Send posts a message of any length. Any goroutine, several at once for different chats;
	// the caller keeps the order within a chat. It honours ctx's deadline: what cannot leave
	// in time is refused as not sent, with RetryAfter when known. It works, or fails as not
	// sent, whether or not Run is running. Errors are *relay.ActionError.
	Send(ctx context.Context, a relay.Send) (relay.Result, error)
}

// Inbox is where a platform hands in what it observed.
type Inbox interface {
	// Accept returns nil once everything in b is on disk or deliberately dropped; only then may
	// the platform confirm it to the network. On an error nothing of b is stored and the
	// platform hands in the same batch again, after a pause. It may block on the disk. Batches
	// of one bot are handed in one at a time.
	Accept(ctx context.Context, b Batch) error

	// Cursor is what the last accepted Batch with a Cursor carried, also from before a restart;
	// nil when there is none.
	Cursor(ctx context.Context) ([]byte, error)
}

// Batch is what one answer of the network brought. It is stored in one transaction.
type Batch struct {
	Events []relay.Event
	// Undecodable are raw payloads that made no sense. They are kept in quarantine.
	Undecodable []Undecodable
	// Moves are chats that got a new id. They take effect before Events.
	Moves []Move
	// Roster are hints that who can see what has changed. They take effect before Events.
	Roster []RosterChange
	// Capabilities came inside Events. They are kept only for the instances that receive the event.
	Capabilities []Capability
	// Cursor, when not nil, is stored with the batch and handed back by Inbox.Cursor. When nothing
	// else of the batch is stored, it may get to the disk up to a minute later, so that a crash
	// brings an older one back; not with Save.
	Cursor []byte
	Save   bool
}

// Capability is a credential that acts on the shared bot and came inside an event. It never
// reaches a gateway: the hub wields it through the platform's Responder.
type Capability struct {
	Event relay.EventID // the event it came in
	Kind  string        // "discord.interaction_token"
	ID    string        // what a Send's ReplyTo names to mean this one
	// Placeholder: the person sees one that the first answer replaces, and that Discard takes away.
	Placeholder bool
	Token       relay.Secret
	ExpiresAt   time.Time
}

// Directory is an Inbox that knows which chats matter: those with a grant or a conversation. A
// platform that must ask the network for what it missed asks about these.
type Directory interface {
	Chats(ctx context.Context) ([]relay.Place, error)
	// Seen reports for each event whether it is stored, or was delivered, in the last three days: handing
	// it in again would do nothing. What was dropped is not known.
	Seen(ctx context.Context, events []relay.EventID) ([]bool, error)
}

// Undecodable is a payload that could not be turned into an event.
type Undecodable struct {
	Raw []byte
	Err error // scrubbed of credentials and of what people wrote
}

// Move says that a chat's id changed from From to To for good. Messages of before are not in the
// chat under its new id: their ids mean others there, or none.
type Move struct{ From, To relay.ChatID }

// RosterChange says that what was known about visibility no longer holds. An empty field means all.
type RosterChange struct {
	Scope relay.ScopeID
	Chat  relay.ChatID
	User  relay.UserID
}

// State is how a bot's connection is.
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
	// Reason says why the state is not Connected, in words an operator can act on. No secrets.
	Reason string
	// Name is the bot's handle on the network, without "@"; empty until known.
	Name string
	// LastEventAt is when the network last sent an event, by our clock; zero: not since the start.
	LastEventAt time.Time
}

// Kind is a network this binary speaks.
type Kind struct {
	Name  relay.PlatformID
	Label string
	// Keys are the settings this kind has in a [[bots]] table beside the common ones
	// (platform, token_file, token_env, api_base).
	Keys []Key
	// CheckToken reports what is wrong with a token's form, without asking the network and
	// without repeating the token. Nil: the kind needs no token.
	CheckToken func(relay.Secret) error
	// CheckID reports why a text cannot be the id of a user or a chat, in words for whoever typed it:
	// a name would be taken and never match anything. Nil: every text can.
	CheckID func(string) error
	// Open makes a bot from checked options. It does no I/O.
	Open func(Options) (Platform, error)
}

// Key is one setting of a kind.
type Key struct {
	Name    string // as in the configuration file
	Default string // used when absent
	Help    string // one line, for `check --help`
	Check   func(value string) error
	Path    bool // of a file or folder: the kind is handed an absolute one
}

// Options are what a Kind is opened with.
type Options struct {
	Token   relay.Secret
	APIBase string            // base URL without a trailing slash; empty means the network's own
	Values  map[string]string // one per Key, defaults filled in
	Log     *slog.Logger
	// Transport carries HTTP; nil means the kind's own. Tests replace it.
	Transport http.RoundTripper
}
