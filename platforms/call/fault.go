package call

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Sent says whether a failed call may have had an effect. The zero value is the cautious one.
type Sent int

const (
	Maybe   Sent = iota // the call may have been carried out
	Never               // the request did not leave this machine
	Refused             // the network answered that it did not carry the call out
)

// Whom a demand for silence is about.
type Whom int

const (
	Unsaid Whom = iota // the network does not say
	Chat               // the chat, or a part of what is done there
	Bot                // the whole bot
)

// NoAnswer is the message of a Fault when something else than the network's API answered.
const NoAnswer = "no answer of the API"

// Fault is why a call had no result. It never contains the token.
type Fault struct {
	What    string // was called; it holds no secret
	Status  int    // of HTTP, or what the network uses in its place; 0 when there was no answer
	Code    int    // the network's own number for the fault; 0 when it gave none
	Message string // the network's words, or ours
	// RetryAfter is how long the network asked to be left alone; 0 when it did not.
	RetryAfter time.Duration
	Whom       Whom // RetryAfter is about
	Sent       Sent
	Detail     any   // what else the network said, in a type of its client's
	Cause      error // the context's error when that ended the call, or what closed the way
}

func (f *Fault) Error() string {
	switch {
	case f.Status == 0:
		return f.What + ": " + f.Message
	case f.Code == 0:
		return fmt.Sprintf("%s: HTTP %d %s", f.What, f.Status, f.Message)
	}
	return fmt.Sprintf("%s: HTTP %d, %d %s", f.What, f.Status, f.Code, f.Message)
}

// Unwrap returns the Cause.
func (f *Fault) Unwrap() error { return f.Cause }

// Limited reports whether the network refused the call because it wants to be left alone.
func (f *Fault) Limited() bool { return f.Refused(http.StatusTooManyRequests) }

// Refused reports whether the network refused the call with that status.
func (f *Fault) Refused(status int) bool { return f.Sent == Refused && f.Status == status }

// FaultOf is the Fault in err; one that says nothing if there is none.
func FaultOf(err error) *Fault {
	if f := new(Fault); errors.As(err, &f) {
		return f
	}
	return new(Fault)
}

// Explain is err as a gateway may read it. Its words steer the gateway: "network" has it try again,
// "timed out" has it leave the message alone, anything else is final, and then the network's own phrase,
// which said gives, says it best. network is the network's name.
func Explain(err error, network string, said func(*Fault) string) *relay.ActionError {
	var done *relay.ActionError
	if errors.As(err, &done) {
		return done
	}
	f := FaultOf(err)
	out := &relay.ActionError{Outcome: relay.NotSent, RetryAfter: f.RetryAfter, Err: err}
	switch {
	case f.Limited():
		out.Public = "network: " + said(f)
	case f.Sent == Refused:
		out.Public = said(f)
	case f.Sent == Never && (f.RetryAfter > 0 || f.Cause != nil):
		return platforms.NotSent(f.RetryAfter, err)
	case f.Sent == Never:
		out.Public = "network: " + network + " cannot be reached"
	case f.What == "":
		out.Outcome, out.Public = relay.MaybeSent, "timed out: the outcome is unknown"
	case f.Status >= 500:
		out.Outcome, out.Public = relay.MaybeSent, "timed out: "+network+" had an internal error, the outcome is unknown"
	default:
		out.Outcome, out.Public = relay.MaybeSent, "timed out: "+network+"'s answer did not come, the outcome is unknown"
	}
	return out
}
