package platforms

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

type callerKey struct{}

// For charges requests to a platform under the returned context to the instance and its share of the rates. Refusals by
// the network count against the instance, too.
func For(ctx context.Context, i relay.InstanceID) context.Context {
	return context.WithValue(ctx, callerKey{}, i)
}

// Caller returns the instance that For named; empty if the connector asks for itself, for example who can see a chat.
// A platform may let the connector's own requests leave before those of instances.
func Caller(ctx context.Context) relay.InstanceID {
	i, _ := ctx.Value(callerKey{}).(relay.InstanceID)
	return i
}

type onceKey struct{}

// Once gives a name to messages sent under the returned context, for a sender that tries again later. A network that
// remembers names (Rememberer) does not send twice under one name, and the bot does not retry messages that could not
// be sent at all.
func Once(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, onceKey{}, name)
}

// Name returns the name that Once gave; empty: none.
func Name(ctx context.Context) string {
	name, _ := ctx.Value(onceKey{}).(string)
	return name
}

type behalfKey struct{}

// OnBehalf names the instance about whose chat the connector asks for itself under the returned context. Refusals count
// against that instance.
func OnBehalf(ctx context.Context, i relay.InstanceID) context.Context {
	return context.WithValue(ctx, behalfKey{}, i)
}

// Behalf returns the instance against which refusals count: the Caller, or the one that OnBehalf named, or none.
func Behalf(ctx context.Context) relay.InstanceID {
	i, _ := ctx.Value(behalfKey{}).(relay.InstanceID)
	return cmp.Or(Caller(ctx), i)
}

type patienceKey struct{}

// Patient makes requests under the returned context stop waiting, for their turn or for the end of a pause, once
// patience has ended. A request that can begin at once still begins, and one that has begun continues.
func Patient(ctx, patience context.Context) context.Context {
	return context.WithValue(ctx, patienceKey{}, patience)
}

// Patience returns the context at whose end requests under ctx stop waiting: the one that Patient was given, else ctx
// itself.
func Patience(ctx context.Context) context.Context {
	if p, ok := ctx.Value(patienceKey{}).(context.Context); ok {
		return p
	}
	return ctx
}

// MutedError says that the network accepts no request of the bot, about any chat, before Until. The caller asks again
// then.
type MutedError struct{ Until time.Time }

func (e *MutedError) Error() string {
	return fmt.Sprintf("the network takes no request of this bot before %s", e.Until.UTC().Format(time.RFC3339))
}

// NotSent returns the error of an action that did not leave in time, because of err. wait is how long the action would
// have had to wait, or 0. Gateways try the action again.
func NotSent(wait time.Duration, err error) *relay.ActionError {
	if wait > 0 {
		return relay.Penalty(wait, err)
	}
	return relay.Later("not sent before the deadline", err)
}
