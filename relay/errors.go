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

// The words of an ActionError steer the gateway, which reads nothing else of it. They are made by the functions below,
// whose test holds them against the rules of every age.
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
func (e *ActionError) Retried() bool { return strings.HasPrefix(e.Public, again+": ") }

// Later is the answer to what was not sent, and may be sent if it is tried again within seconds; why says what for.
func Later(why string, err error) *ActionError {
	return &ActionError{Outcome: NotSent, Public: again + ": " + why, Err: err}
}

// Penalty is the answer to what was not sent because the bot has to be silent for the wait, which is 0 when nobody knows
// how long. Gateways since September 2026 look for this sentence, wherever it stands, and try a final answer again when
// the time is over; one that begins with flood_control: they read as well, but not with anything behind the number.
func Penalty(wait time.Duration, err error) *ActionError {
	if wait <= 0 {
		return Later("rate limited", err)
	}
	out := Later(fmt.Sprintf("Flood control exceeded. Retry in %d seconds", int64(math.Ceil(wait.Seconds()))), err)
	out.RetryAfter = wait
	return out
}

// Dropped is the answer to a signal, such as a reaction, that is not worth waiting for: a gateway does not try it again.
// wait is how long the bot has to be silent, or 0.
func Dropped(wait time.Duration, err error) *ActionError {
	return &ActionError{Outcome: NotSent, Public: "rate limited", RetryAfter: wait, Err: err}
}

// Unclear is the answer to what may have been sent: a gateway does not try it again at once. why may be empty.
func Unclear(why string, err error) *ActionError {
	out := &ActionError{Outcome: MaybeSent, Public: unclear, Err: err}
	if why != "" {
		out.Public += ": " + why
	}
	return out
}

// Partly is the answer to a text of which the parts with these ids stand, and left more may not: sent again, it would
// stand there twice, so the words are those of Unclear whatever the reason.
func Partly(ids []MessageID, left int, err error) *ActionError {
	out := Unclear(fmt.Sprintf("only the first %d of %d parts are delivered for certain", len(ids), len(ids)+left), err)
	out.MessageIDs = ids
	return out
}

// Refused is the answer to what the network refuses for good, in its own words, unless they would steer the gateway.
func Refused(words string, err error) *ActionError {
	if words == "" || Steers(words) {
		words = "refused"
	}
	return &ActionError{Outcome: NotSent, Public: words, Err: err}
}

// Steers reports whether a network's own words mean something else to a gateway.
func Steers(words string) bool {
	words = strings.ToLower(words)
	return strings.Contains(words, again) || strings.Contains(words, unclear)
}

// Gone is the answer to what is for a chat that is not there any more, or takes nothing from the bot. words are the
// network's own, or empty; newer gateways keep no answer for such a chat.
func Gone(words string, err error) *ActionError {
	out := Refused(gone, err)
	if words != "" && !Steers(words) {
		out.Public += ": " + words
	}
	return out
}

// Unsupported is the answer to an operation the bot cannot do, or nobody here has heard of. Gateways
// read "never again" in it: what the descriptor advertises is never refused so.
func Unsupported(op Op) *ActionError {
	return &ActionError{Outcome: NotSent, Public: "unsupported op " + string(op)}
}

// Invalid is the answer to an action that cannot be carried out as it was asked for; why names what is
// wrong with it, and holds none of the words that steer a gateway. op may be empty.
func Invalid(op Op, why string) *ActionError {
	return &ActionError{Outcome: NotSent, Public: "invalid " + string(cmp.Or(op, "action")) + ": " + why}
}

// Declined is the one answer to an action on a chat the instance may not act on. It does not
// tell whether the chat exists. platform may be empty, then it says "relay".
func Declined(platform PlatformID) *ActionError {
	return &ActionError{
		Outcome: NotSent, Code: CodeEgressDeclined,
		Public: string(cmp.Or(platform, RelayPlatform)) + " egress declined: target is not an approved destination for this connection",
	}
}

// Busy is the answer when more actions wait than a session may have.
func Busy() *ActionError { return Later("busy", nil) }

// Explain reduces any error of an action to what a gateway may read. An error that is no
// *ActionError is an unknown outcome, and its text stays here.
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
