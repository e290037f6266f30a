package platforms

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

type callerKey struct{}

// For makes everything asked of a platform under the returned context count as asked by the
// instance: its share of a limit pays for it, and its refusals are its own.
func For(ctx context.Context, i relay.InstanceID) context.Context {
	return context.WithValue(ctx, callerKey{}, i)
}

// Caller is the instance a platform is asked for; empty when the connector asks for itself, such
// as to learn who can see a chat. The connector's own requests go before those of instances.
func Caller(ctx context.Context) relay.InstanceID {
	i, _ := ctx.Value(callerKey{}).(relay.InstanceID)
	return i
}

type behalfKey struct{}

// OnBehalf names the instance whose chat the connector asks about under the returned context. The
// question stays the connector's own and goes before others; but what the network says of the chat's
// conduct is laid to that instance's account.
func OnBehalf(ctx context.Context, i relay.InstanceID) context.Context {
	return context.WithValue(ctx, behalfKey{}, i)
}

// Behalf is the instance to whose account an answer of the network is laid: the Caller, or else whom
// OnBehalf named; empty when that is nobody.
func Behalf(ctx context.Context) relay.InstanceID {
	if i := Caller(ctx); i != "" {
		return i
	}
	i, _ := ctx.Value(behalfKey{}).(relay.InstanceID)
	return i
}

// MutedError: the network takes no request of the whole bot before Until. It says nothing about
// what was asked, so the caller waits until then and asks again.
type MutedError struct{ Until time.Time }

func (e *MutedError) Error() string {
	return fmt.Sprintf("the network takes no request of this bot before %s", e.Until.UTC().Format(time.RFC3339))
}

// NotSent is the answer to an action that did not leave in time, because of err; wait is how long it
// would have had to wait, 0 if nobody knows. "network" makes gateways of every age try again.
func NotSent(wait time.Duration, err error) *relay.ActionError {
	out := &relay.ActionError{Outcome: relay.NotSent, Public: "network: not sent before the deadline", Err: err}
	if wait > 0 {
		out.Public, out.RetryAfter = fmt.Sprintf("network: rate limited, retry after %d", int64(math.Ceil(wait.Seconds()))), wait
	}
	return out
}
