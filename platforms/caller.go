package platforms

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

type callerKey struct{}

// For has the instance pay, with its share of the rates, for whatever is asked of a platform under the returned
// context. Refusals are laid to its account, too.
func For(ctx context.Context, i relay.InstanceID) context.Context {
	return context.WithValue(ctx, callerKey{}, i)
}

// Caller is the instance that For named; empty when the connector asks for itself, such as who can see a chat.
// The connector's own requests go before those of instances.
func Caller(ctx context.Context) relay.InstanceID {
	i, _ := ctx.Value(callerKey{}).(relay.InstanceID)
	return i
}

type onceKey struct{}

// Once names what is sent under the returned context, by somebody who tries again later: a network that remembers names
// (Rememberer) does not carry it out again under the same one, and what could not be sent at all is not tried again here.
func Once(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, onceKey{}, name)
}

// Name is the name that Once gave; empty: none.
func Name(ctx context.Context) string {
	name, _ := ctx.Value(onceKey{}).(string)
	return name
}

type behalfKey struct{}

// OnBehalf names the instance about whose chat the connector asks for itself under the returned context: refusals
// are laid to that instance's account.
func OnBehalf(ctx context.Context, i relay.InstanceID) context.Context {
	return context.WithValue(ctx, behalfKey{}, i)
}

// Behalf is the instance to whose account a refusal is laid: the Caller, or else whom OnBehalf named; or empty.
func Behalf(ctx context.Context) relay.InstanceID {
	i, _ := ctx.Value(behalfKey{}).(relay.InstanceID)
	return cmp.Or(Caller(ctx), i)
}

type patienceKey struct{}

// Patient has what is asked for under the returned context wait for nothing any more once patience has ended, such as for
// its turn or the end of a pause. What can begin at once still does, and what has begun comes to its end.
func Patient(ctx, patience context.Context) context.Context {
	return context.WithValue(ctx, patienceKey{}, patience)
}

// Patience ends when nothing is to be waited for any more under ctx; it is ctx itself if nobody said.
func Patience(ctx context.Context) context.Context {
	if p, ok := ctx.Value(patienceKey{}).(context.Context); ok {
		return p
	}
	return ctx
}

// MutedError: the network takes no request of the whole bot before Until. The caller asks again then.
type MutedError struct{ Until time.Time }

func (e *MutedError) Error() string {
	return fmt.Sprintf("the network takes no request of this bot before %s", e.Until.UTC().Format(time.RFC3339))
}

// NotSent is the answer to an action that did not leave in time, because of err; wait is how long it would have
// had to wait, or 0. Gateways try it again.
func NotSent(wait time.Duration, err error) *relay.ActionError {
	if wait > 0 {
		return relay.Penalty(wait, err)
	}
	return relay.Later("not sent before the deadline", err)
}
