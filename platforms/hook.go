package platforms

import (
	"context"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Hook is a bot whose network calls it over HTTP, for everything or, beside a connection of its own, for presses only.
// Package relay/webhooks finds the bot by the path of a request and reads the body; what the request is worth the platform
// judges. An Inbox takes one batch of a bot at a time: a bot that is called only hands in with an inbox.Feed; one that
// has a connection too brings both into one queue, as Discord's does.
type Hook interface {
	// HookRules is what a request may be. No methods: the bot is not called this way. Constant.
	HookRules() HookRules
	// Receive verifies r, hands in what it says, and returns its answer once that is on disk, or when the
	// network would wait no longer. ctx ends when the answer is written, or nobody waits for it. Any goroutine.
	Receive(ctx context.Context, r HookRequest) HookAnswer
}

// HookPath is where the network of a bot calls.
func HookPath(b relay.Bot) string { return "/webhooks/" + string(b.Platform) + "/" + string(b.ID) }

// Called is p as one whose network calls it over HTTP; ok is false if none does.
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
	// Enter is where the operator enters the bot's address, in words, for `status`; empty: nowhere.
	Enter string
	// Doubt is what the operator should check when signatures are wrong again and again, in words.
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

// HookAnswer is what the network reads.
type HookAnswer struct {
	Status     int // of HTTP
	Type       string
	Body       []byte
	RetryAfter time.Duration // 0: nothing is said
	// Refused says why nothing was taken in; empty: it was, or there was nothing to take in.
	Refused HookRefusal
	// Notes are what the call told of messages of ours.
	Notes []HookNote
	// Skew is how far the request's time is from ours, with StaleTimestamp: positive if ours is ahead.
	Skew time.Duration
}

// HookNote is what a network told of a message of ours.
type HookNote struct {
	Status string // one of HookNotes
	// Of one that did not arrive: where it was to go, and why it did not, for people, without what anybody wrote. Empty: not
	// said.
	Chat    relay.ChatID
	Message relay.MessageID
	Why     string
}

// HookRefusal is why a request was refused, for counters and `explain`.
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

// HookNotes are what networks tell of messages that they have taken.
func HookNotes() []string {
	return []string{"queued", "sent", "delivered", "undelivered", "failed", "read"}
}

// HookRefusals are all of them.
func HookRefusals() []HookRefusal {
	return []HookRefusal{BadSignature, StaleTimestamp, WrongRecipient, Unreadable, NotStored, OfGroup}
}
