package outbound

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// tellWithin bounds Tell, by the time that a gateway's action has.
const tellWithin = 25 * time.Second

// Tell makes a bot write to a person in the name of an instance to which they are linked, as an action of its gateway
// would: it asks the gate, waits for the chat's limiter, and keeps on disk what no network can take now.
func (out *Outbound) Tell(ctx context.Context, t relay.TenantID, i relay.InstanceID, c relay.Chat, text string) (relay.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	who := out.Caller(absent{c.Bot}, "", t, i)
	r := relay.Request{Platform: c.Bot.Platform, Bot: c.Bot.ID, Action: relay.Send{Chat: c.ID, Content: text, Meta: relay.Metadata{Notify: true}}}
	a := &action{who: &who, request: r, line: who.line(ctx, r), came: time.Now()} // not by Caller.Action, which learns from requests
	if err := a.Allow(ctx); err != nil {
		return relay.Result{}, err
	}
	return a.Do(ctx, func() (context.Context, relay.Request, bool) { return ctx, r, ctx.Err() == nil })
}
