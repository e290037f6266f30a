// Package outbound carries out what gateways ask for, on networks: it finds the bot and the chat that a request is about, asks
// the gate, waits for the chat's limiter, and has the network do it.
//
// Invariants:
//
//  1. Who asks comes from the credential a session was opened with, never from a frame.
//  2. An action reaches a platform only after gate.MayAct said yes for that instance and chat. One that waited is judged
//     again when it is sent.
//  3. A final answer of which a gateway was told that it is on disk is sent once; or, after a crash in the middle of a call,
//     once more with words that say so; or somebody is told why not.
//
// Decided: No wrapper stands around a platform. The right to put an answer in a placeholder's place is taken once, and given
// back only if certainly nothing was sent; where nobody knows, after a restart or an unclear answer, the network is asked. A
// stop leaves placeholders: whoever starts next answers through them.
package outbound

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/background"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/facts"
	"github.com/hermes-connector/hermes-connector/store"
)

// Files find what gateways send, and keep it while it waits. Any goroutine.
type Files interface {
	// Source is the file at an address, as the instance may read it. done lets go of it, and is never nil. Errors
	// are *relay.ActionError.
	Source(ctx context.Context, i relay.InstanceID, url, name string) (f relay.File, done func(), err error)
	// Put keeps a file of the instance's, of declared bytes, and is its id and its size.
	Put(ctx context.Context, i relay.InstanceID, name string, declared int64, body io.Reader) (relay.MediaID, int64, error)
}

// Options are what an Outbound works with.
type Options struct {
	DB       *store.DB
	Facts    *facts.Facts
	Bots     Bots
	Tasks    *background.Queue
	Counters *count.Totals
	Seal     Sealer // nil: no capability is kept, and what they are for is answered by ordinary messages
	Files    Files  // nil: no gateway sends any
	// Keep is how long a final answer waits that no network takes now; 0: none does.
	Keep time.Duration
	// Leads is asked before each call of a network: whether this process may make it, still; nil: it always may.
	Leads func() bool
	Log   *slog.Logger
}

// Outbound carries actions out. Its methods may be called from any goroutine.
type Outbound struct {
	Capabilities *Capabilities
	Prompts      *Prompts
	Commands     *Commands
	Queue        *Queue

	db       *store.DB
	leads    func() bool
	facts    *facts.Facts
	bots     Bots
	counters *count.Totals
	files    Files
	log      *slog.Logger
	reacting reacting
	says     sync.Map // the instances whose gateways tell their last answers from others
}

// New makes an Outbound. Nothing of it runs by itself.
func New(o Options) *Outbound {
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	out := &Outbound{
		Capabilities: &Capabilities{db: o.DB, bots: o.Bots, tasks: o.Tasks, seal: o.Seal, leads: o.Leads, log: o.Log},
		Prompts:      &Prompts{db: o.DB, bots: o.Bots, tasks: o.Tasks},
		Commands:     &Commands{db: o.DB, bots: o.Bots},

		db: o.DB, leads: o.Leads, facts: o.Facts, bots: o.Bots, counters: o.Counters, files: o.Files, log: o.Log,
	}
	out.Queue = newQueue(out, o.Keep)
	return out
}

// Attachment is the session of a gateway that asks. Its methods are called from the session's goroutines.
type Attachment interface {
	// Identities are the bots that its hellos named, in order.
	Identities() []relay.Bot
	// Revoked reports whether its credential is dead: then nothing begins any more.
	Revoked() bool
	// Asks notes what a request shows of the gateway's age. It may wait for a commit.
	Asks(context.Context, relay.Request)
	// Heard tells what the gateway does in a conversation. It does not block.
	Heard(delivery.Conversation, delivery.Sign)
}

// Caller is a gateway that asks, through one session.
type Caller struct {
	out        *Outbound
	attachment Attachment
	gateway    relay.GatewayID
	tenant     relay.TenantID
	instance   relay.InstanceID
}

// Caller is the gateway at the other end of the attachment, which serves the tenant's instance.
func (out *Outbound) Caller(a Attachment, g relay.GatewayID, t relay.TenantID, i relay.InstanceID) Caller {
	return Caller{out: out, attachment: a, gateway: g, tenant: t, instance: i}
}

// recordWithin bounds what must still be stored after an action's own time ran out.
const recordWithin = 5 * time.Second

// internal is what a gateway reads when the database could not be asked: not sent, worth trying again.
func internal(err error) error {
	if _, ok := errors.AsType[*relay.ActionError](err); ok {
		return err
	}
	return relay.Later("the connector's database is not available", err)
}
