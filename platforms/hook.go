package platforms

import (
	"context"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Hook is a bot whose network calls it over HTTP, for everything or, beside a connection of its own, for presses only.
// Package relay/webhooks finds the bot by the path of a request and reads the body; the platform verifies the request.
// An Inbox accepts one batch of a bot at a time. A bot without a connection therefore hands in the events of its
// requests with an inbox.Feed; a bot that has a connection as well puts the events of both into one queue.
type Hook interface {
	// HookRules returns the limits of a request. If they allow no method, the network does not call this bot. It is
	// constant.
	HookRules() HookRules
	// Receive verifies r, hands in its events, and returns its answer when they are on disk, or when the network would
	// wait no longer. ctx ends when the answer is written, or nobody waits for it. It may be called from any goroutine.
	Receive(ctx context.Context, r HookRequest) HookAnswer
}

// HookPath returns the path that a bot's network calls.
func HookPath(b relay.Bot) string { return "/webhooks/" + string(b.Platform) + "/" + string(b.ID) }

// Called returns p as a Hook; ok is false if its network makes no calls.
func Called(p Bot) (h Hook, rules HookRules, ok bool) {
	if h, ok = p.(Hook); ok {
		rules = h.HookRules()
	}
	return h, rules, len(rules.Methods) > 0
}

// HookRules bound the requests of a bot's network.
type HookRules struct {
	Methods []string
	MaxBody int64 // in bytes
	// Enter says where the operator enters the bot's address, for `status`; empty: nowhere.
	Enter string
	// Doubt says what the operator should check when signatures are wrong again and again.
	Doubt string
}

// HookRequest is a request as it came.
type HookRequest struct {
	Method string
	Target string // path and query, not decoded
	Header http.Header
	Body   []byte
	// Verified is to be called once the request is known to be the network's own. Nil: nobody wants to know.
	Verified func()
}

// Proved calls Verified.
func (r HookRequest) Proved() {
	if r.Verified != nil {
		r.Verified()
	}
}

// HookAnswer is the response to the network.
type HookAnswer struct {
	Status     int // of HTTP
	Type       string
	Body       []byte
	RetryAfter time.Duration // when the network is asked to call again; 0: it is not asked
	// Refused says why nothing was stored; empty: something was, or there was nothing to store.
	Refused HookRefusal
	// Notes are the call's reports about our own messages.
	Notes []HookNote
	// Skew is how far the request's time is from ours, with StaleTimestamp; positive if ours is ahead.
	Skew time.Duration
}

// HookNote is a network's report about one of our messages.
type HookNote struct {
	Status string // one of HookNotes
	// For a message that did not arrive: its chat, its id, and why it did not arrive, for people, without what anybody
	// wrote. Empty: not said.
	Chat    relay.ChatID
	Message relay.MessageID
	Why     string
}

// HookRefusal is the reason for refusing a request, for counters and `explain`.
type HookRefusal string

// The refusals.
const (
	BadSignature   HookRefusal = "bad_signature"
	StaleTimestamp HookRefusal = "stale_timestamp"
	WrongRecipient HookRefusal = "wrong_recipient"
	Unreadable     HookRefusal = "unreadable"
	NotStored      HookRefusal = "not_stored"
	OfGroup        HookRefusal = "of_group" // of a network on which the bot takes direct messages only
)

// HookNotes returns the statuses that networks report for messages that they have accepted.
func HookNotes() []string {
	return []string{"queued", "sent", "delivered", "undelivered", "failed", "read"}
}

// HookRefusals returns all refusals.
func HookRefusals() []HookRefusal {
	return []HookRefusal{BadSignature, StaleTimestamp, WrongRecipient, Unreadable, NotStored, OfGroup}
}
