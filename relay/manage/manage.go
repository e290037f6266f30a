// Package manage carries out the operations on the connector: enroll and revoke gateways, link people, grant chats, set
// policies, look at the state, and handle buffers. The command line calls it for the operator, in the server's process or
// in its own; relay/api calls it for gateways, and for programs that manage them.
//
// It does not check what the caller may do. The operator may do anything, and relay/api passes only the instance, or
// the tenant, that a caller has proved to be. The actor of a change is an argument, for the audit list alone. The package
// does not deliver and does not listen.
//
// Invariants:
//
//  1. A credential is returned once, by the call that made it, and is nowhere else in the clear.
//  2. A change that a running server must learn at once (a revocation, a lane that grew) is published on the bus after
//     it is in the store.
//  3. A refusal is an *Error that says why, and which operation helps. The front end says how to call it.
//  4. The JSON shapes of this package are relied upon by scripts: fields may be added, never
//     renamed or removed.
//  5. Every change leaves a row in the audit list, with its actor, in the transaction that makes the change.
//  6. A tenant gets nothing that belongs to another one. It is refused as if it did not exist.
//
// Decided: A route reserves a key and does nothing else; delivery follows the gate alone. A wake URL from a gateway is
// checked like one from the operator: the operator is refused, the gateway gets its credentials and a warning.
package manage

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/relay/link"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/media"
	"github.com/hermes-connector/hermes-connector/relay/notify"
	"github.com/hermes-connector/hermes-connector/relay/token"
	"github.com/hermes-connector/hermes-connector/relay/wake"
	"github.com/hermes-connector/hermes-connector/relay/webhooks"
	"github.com/hermes-connector/hermes-connector/store"
)

// Live is the running server. Its methods may be called from any goroutine and, except MayClaim and Answers, do not
// block.
type Live interface {
	// Bots returns the hosted bots, in the order of the configuration.
	Bots() []platforms.Bot
	// Connected reports whether a session serves the instance now.
	Connected(relay.InstanceID) bool
	// Serves reports whether a session of the gateway serves its instance now.
	Serves(relay.GatewayID, relay.InstanceID) bool
	// Answers is like Serves, but waits until the gateway gives a sign of life, and returns false if none comes in time.
	Answers(context.Context, relay.GatewayID, relay.InstanceID) bool
	// Warning returns a sentence about the instance on which the operator should act; empty: there is none.
	Warning(relay.InstanceID) string
	// Unfronted returns the bots whose events wait because the instance's gateway does not serve those bots.
	Unfronted(relay.InstanceID) []relay.Bot
	// Fronts reports whether the instance's gateway serves one of the bots; it is also true while no gateway is
	// connected.
	Fronts(i relay.InstanceID, bots ...relay.Bot) bool
	// Counters returns totals since the start.
	Counters() map[string]uint64
	// Decisions returns the newest verdicts of the gate, newest last.
	Decisions() []gate.Decision
	// Forget removes a person's messages to the instance, and those that reached nobody, from Decisions. It also forgets what
	// programs told the person.
	Forget(relay.InstanceID, relay.PlatformID, relay.UserID)
	// Ready reports whether the store is writable and every bot's updates flow.
	Ready() bool
	// MayClaim asks the platform whether a person bound to the instance sees and manages the chat, and where it lies. An
	// empty chat means the whole scope. If the platform does not say, the answer is no.
	MayClaim(context.Context, relay.InstanceID, relay.PlatformID, relay.ScopeID, relay.ChatID) (relay.Place, bool)
}

// Settings are what a Service knows of the configuration.
type Settings struct {
	Version string // of this program
	URL     string // the address that gateways dial: http or https, without a trailing slash
	// Bots are the configured bots, opened but not run, in the order of the configuration. They are used only if there is
	// no Live.
	Bots     []platforms.Bot
	Networks []platforms.Network // the networks this program speaks
	// WebURL is the address of the web pages, without a trailing slash; empty: there are none.
	WebURL string
	// WebFingerprint returns the SHA-256 of the connector's own certificate for the web pages; nil, or an empty result:
	// the pages do not use that certificate.
	WebFingerprint func() string
	// IdentityURLs says that this connector is its gateways' token endpoint.
	IdentityURLs bool
	// CheckWake checks where a wake URL points; nil: only its form is checked.
	CheckWake func(raw string) error
	Words     Words // nil: verdicts and findings are without words
	// Findings returns the present faults of the machine, which a Service does not see by itself; nil: there are never
	// any. It is cheap. afresh demands a new examination of the machine, not a recent one.
	Findings func(afresh bool) finding.List
	Run      string // the id of the running server's run, as its /healthz shows it
	// Standings knows the status of the bots in granted chats; nil: no server runs.
	Standings *Standings
	// Notify tells the operator of faults; nil: nobody is told.
	Notify *notify.Notifier
	// Hooks describes the networks' calls; nil: no network can call.
	Hooks Hooks
	// Outbox sends the answers that wait; nil: no server runs.
	Outbox Outbox
	// Files knows the state of the files; nil: no server runs.
	Files Files
	// Reload reads the configuration again, for the user by that name; nil: no server runs. Its refusals are *Error.
	Reload func(ctx context.Context, by string) (Reloaded, error)
	// Poke returns the result of an instance's newest wake poke, or nil if there was none; nil: no server runs.
	Poke func(relay.InstanceID) *wake.Poke
	Now  func() time.Time // nil means time.Now
}

// Files knows the files that are kept. *media.Keeper implements it. Its methods are called from any goroutine, and do not block.
type Files interface {
	Stats() media.Stats
	// NotFetched reports whether the instance gets files and fetches none.
	NotFetched(relay.InstanceID) bool
}

// Hooks knows the calls of networks over HTTP. Its methods may be called from any goroutine, and do not block.
type Hooks interface {
	// State describes the calls for a bot; ok is false for a bot without calls.
	State(relay.Bot) (s webhooks.State, ok bool)
	// Refusals returns the newest calls that were refused, newest last.
	Refusals() []webhooks.Refusal
	// Undelivered returns the newest messages that did not arrive, as the networks reported afterwards; newest last.
	Undelivered() []webhooks.Undelivered
}

// Service has all operations, in a part for each subject. Its methods may be called from any goroutine.
type Service struct {
	*gateways
	*newcomers
	*programs
	*people
	*chats
	*buffers
	*answers
	*observer
	*history
	*process
}

// Vault makes MACs of secrets that only need to be recognised, and seals those that are needed again. *vault.Vault implements it.
type Vault interface {
	relay.MACer
	Seal(bucket, key string, plain relay.Secret) []byte
}

// New makes a Service. live is nil when no server runs in this process.
func New(db *store.DB, auth *token.Authority, desk *link.Desk, mac Vault, b bus.Bus, live Live, s Settings) *Service {
	if s.Now == nil {
		s.Now = time.Now
	}
	names, around := directory{db}, &surroundings{live: live, set: s}
	g, p, out := &gateways{names, around, auth, mac, b}, &people{names, around, desk}, &answers{names, around}
	return &Service{
		gateways:  g,
		newcomers: &newcomers{g},
		programs:  &programs{names, around, p, mac},
		people:    p,
		chats:     &chats{names, around},
		buffers:   &buffers{names, b},
		answers:   out,
		observer:  &observer{names, around, auth, out},
		history:   &history{names, around, out},
		process:   &process{around, db, login.NewDesk(db.Codes, mac, s.Now)},
	}
}

// each returns the list of as(a) for every a of all. It is never nil, which JSON would show as null.
func each[A, B any](all []A, as func(A) B) []B {
	out := make([]B, len(all))
	for i, a := range all {
		out[i] = as(a)
	}
	return out
}
