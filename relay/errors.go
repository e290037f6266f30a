package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Outcome says whether the platform may nevertheless have carried out an action that failed.
type Outcome int

const (
	// MaybeSent is the cautious zero value: an unclassified error counts as this, and is never retried.
	MaybeSent Outcome = iota
	// NotSent means that the platform certainly did not carry the action out.
	NotSent
)

// CodeEgressDeclined is the result code newer gateways recognise as "not an approved destination".
const CodeEgressDeclined = "egress_declined"

// The words of an ActionError steer the gateway, which reads nothing else of it. The functions below make them, and a
// test checks them against the rules of all gateway versions.
const (
	again   = "network"        // worth another try
	unclear = "timed out"      // it may have been delivered
	gone    = "chat not found" // nothing will ever arrive there
)

// ActionError is why an action did not succeed.
type ActionError struct {
	Outcome Outcome
	// Public goes to the gateway. It must not contain a credential, a path or a foreign id.
	Public string
	Code   string // CodeEgressDeclined or empty
	// RetryAfter is how long the platform asked us to wait; 0: it did not say.
	RetryAfter time.Duration
	// MessageIDs are the parts of a split send that are on the platform.
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
func (e *ActionError) Retried() bool { return strings.HasPrefix(e.Public, again+": ") }

// Later returns the error of an action that was not sent, and may be sent if it is tried again within seconds; why
// names the obstacle.
func Later(why string, err error) *ActionError {
	return &ActionError{Outcome: NotSent, Public: again + ": " + why, Err: err}
}

// Penalty returns the error of an action that was not sent because the bot has to be silent for the time wait; 0:
// nobody knows how long. Gateways since September 2026 look for this sentence anywhere in the text, and try a final
// answer again when the time is over. They also read a text that begins with flood_control:, but only with nothing
// behind the number.
func Penalty(wait time.Duration, err error) *ActionError {
	if wait <= 0 {
		return Later("rate limited", err)
	}
	out := Later(fmt.Sprintf("Flood control exceeded. Retry in %d seconds", int64(math.Ceil(wait.Seconds()))), err)
	out.RetryAfter = wait
	return out
}

// Dropped returns the error of a signal, such as a reaction, that is not worth waiting for: a gateway does not try it
// again. wait is how long the bot has to be silent, or 0.
func Dropped(wait time.Duration, err error) *ActionError {
	return &ActionError{Outcome: NotSent, Public: "rate limited", RetryAfter: wait, Err: err}
}

// Unclear returns the error of an action that may have been sent: a gateway does not try it again at once. why may be
// empty.
func Unclear(why string, err error) *ActionError {
	out := &ActionError{Outcome: MaybeSent, Public: unclear, Err: err}
	if why != "" {
		out.Public += ": " + why
	}
	return out
}

// Partly returns the error of a text whose parts with these ids were sent, while left more parts may not have been. If
// the text were sent again, its first parts would appear twice, so the words are those of Unclear whatever the reason.
func Partly(ids []MessageID, left int, err error) *ActionError {
	out := Unclear(fmt.Sprintf("only the first %d of %d parts are delivered for certain", len(ids), len(ids)+left), err)
	out.MessageIDs = ids
	return out
}

// Refused returns the error of an action that the network refuses for good, in the network's words, or as "refused" if
// the network's words are empty or would steer the gateway.
func Refused(words string, err error) *ActionError {
	if words == "" || Steers(words) {
		words = "refused"
	}
	return &ActionError{Outcome: NotSent, Public: words, Err: err}
}

// Steers reports whether a gateway would follow a network's own words as if this connector had chosen them: they
// contain the text of again or of unclear.
func Steers(words string) bool {
	words = strings.ToLower(words)
	return strings.Contains(words, again) || strings.Contains(words, unclear)
}

// Gone returns the error of an action in a chat that no longer exists, or accepts nothing from the bot. words are the
// network's own, or empty; newer gateways keep no answer for such a chat.
func Gone(words string, err error) *ActionError {
	out := Refused(gone, err)
	if words != "" && !Steers(words) {
		out.Public += ": " + words
	}
	return out
}

// Unsupported returns the error of an operation that the bot cannot do, or that is unknown here. To gateways it means
// "never again": an operation that the descriptor advertises is never refused this way.
func Unsupported(op Op) *ActionError {
	return &ActionError{Outcome: NotSent, Public: "unsupported op " + string(op)}
}

// Invalid returns the error of an action that cannot be carried out as requested. why names the fault, without words
// that steer a gateway. op may be empty.
func Invalid(op Op, why string) *ActionError {
	return &ActionError{Outcome: NotSent, Public: "invalid " + string(cmp.Or(op, "action")) + ": " + why}
}

// Declined returns the one answer to an action on a chat the instance may not act on. It does not tell whether the chat
// exists. platform may be empty, then it says "relay".
func Declined(platform PlatformID) *ActionError {
	return &ActionError{
		Outcome: NotSent, Code: CodeEgressDeclined,
		Public: string(cmp.Or(platform, RelayPlatform)) + " egress declined: target is not an approved destination for this connection",
	}
}

// Busy returns the answer when more actions wait than a session may have.
func Busy() *ActionError { return Later("busy", nil) }

// Explain reduces any error of an action to what a gateway may read. An error that is not an *ActionError is an unknown
// outcome, and its text stays here.
func Explain(err error) *ActionError {
	if err == nil {
		return nil
	}
	if ae, ok := errors.AsType[*ActionError](err); ok {
		return ae
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Unclear("", err)
	}
	return Unclear("the outcome is unknown", err)
}

// ErrBadCredentials ends a platform's Run: the platform rejects the credential, and trying
// again cannot help.
var ErrBadCredentials = errors.New("the platform rejects the credential")
