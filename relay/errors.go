package relay

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Outcome says whether an action that failed may nevertheless stand on the platform.
type Outcome int

const (
	// MaybeSent is the cautious zero value: an unclassified error counts as this, and is never retried.
	MaybeSent Outcome = iota
	// NotSent means that the platform certainly did not carry the action out.
	NotSent
)

// CodeEgressDeclined is the result code newer gateways recognise as "not an approved destination".
const CodeEgressDeclined = "egress_declined"

// ActionError is why an action did not succeed. Its words steer the gateway (it matches on
// text): "network" means worth retrying, "timed out" means outcome unknown, anything else is
// permanent and earns one plain-text retry.
type ActionError struct {
	Outcome Outcome
	// Public goes to the gateway. It must not contain a credential, a path or a foreign id.
	Public string
	Code   string // CodeEgressDeclined or empty
	// RetryAfter is how long the platform asked to be left alone; 0 when it did not say.
	RetryAfter time.Duration
	// MessageIDs are the parts of a split send that stand on the platform.
	MessageIDs []MessageID
	// Err goes to the log and nowhere else.
	Err error
}

func (e *ActionError) Error() string {
	if e.Err != nil {
		return e.Public + ": " + e.Err.Error()
	}
	return e.Public
}

func (e *ActionError) Unwrap() error { return e.Err }

// Retried reports whether gateways read in e's words that they should try again.
func (e *ActionError) Retried() bool { return strings.Contains(e.Public, "network") }

// Unsupported is the answer to an operation the bot cannot do, or nobody here has heard of. Gateways
// read "never again" in it: what the descriptor advertises is never refused so.
func Unsupported(op Op) *ActionError {
	return &ActionError{Outcome: NotSent, Public: "unsupported op " + string(op)}
}

// Invalid is the answer to an action that cannot be carried out as it was asked for; why names what is
// wrong with it, and holds none of the words that steer a gateway. op may be empty.
func Invalid(op Op, why string) *ActionError {
	if op == "" {
		op = "action"
	}
	return &ActionError{Outcome: NotSent, Public: "invalid " + string(op) + ": " + why}
}

// Declined is the one answer to an action on a chat the instance may not act on. It does not
// tell whether the chat exists. platform may be empty, then it says "relay".
func Declined(platform PlatformID) *ActionError {
	if platform == "" {
		platform = "relay"
	}
	return &ActionError{
		Outcome: NotSent, Code: CodeEgressDeclined,
		Public: string(platform) + " egress declined: target is not an approved destination for this connection",
	}
}

// Busy is the answer when more actions wait than a session may have.
func Busy() *ActionError {
	return &ActionError{Outcome: NotSent, Public: "network: busy"}
}

// Explain reduces any error of an action to what a gateway may read. An error that is no
// *ActionError is an unknown outcome, and its text stays here.
func Explain(err error) *ActionError {
	if err == nil {
		return nil
	}
	var ae *ActionError
	if errors.As(err, &ae) {
		return ae
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &ActionError{Outcome: MaybeSent, Public: "timed out", Err: err}
	}
	return &ActionError{Outcome: MaybeSent, Public: "timed out: the outcome is unknown", Err: err}
}

// ErrBadCredentials ends a platform's Run: the platform rejects the credential, and trying
// again cannot help.
var ErrBadCredentials = errors.New("the platform rejects the credential")
