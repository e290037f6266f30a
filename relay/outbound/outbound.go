// Package outbound carries out gateways' requests on networks: it finds the bot and the chat of a request, asks the
// gate, waits for the chat's limiter, and makes the network do it.
//
// Invariants:
//
//  1. The identity of a gateway comes from the credential with which its session was opened, never from a frame.
//  2. An action reaches a platform only after gate.MayAct said yes for that instance and chat. One that waited is
//     judged again when it is sent.
//  3. If a gateway was told that its final answer is on disk, the answer is sent once; or, after a crash in the middle
//     of a call, once more with words that say so; or somebody is told why it was not sent.
//
// Decided: Platforms are called directly, without a wrapper around them. The right to replace a placeholder is taken
// once, and given back only if certainly nothing was sent; if nobody knows, after a restart or an unclear answer, the
// network is asked. A stop leaves placeholders: the next process answers through them.
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

// Files finds the files that gateways send, and keeps them while they wait. It may be used from any goroutine.
type Files interface {
	// Source opens the file at an address, if the instance may read it. done releases it, and is never nil. Errors are
	// *relay.ActionError.
	Source(ctx context.Context, i relay.InstanceID, url, name string) (f relay.File, done func(), err error)
	// Put stores a file of the instance, of declared bytes, and returns its id and its size.
	Put(ctx context.Context, i relay.InstanceID, name string, declared int64, body io.Reader) (relay.MediaID, int64, error)
}

// Options are the parts that an Outbound works with.
type Options struct {
	DB       *store.DB
	Facts    *facts.Facts
	Bots     Bots
	Tasks    *background.Queue
	Counters *count.Totals
	Seal     Sealer // nil: no capability is kept, and ordinary messages take their place
	Files    Files  // nil: no gateway sends any
	// Keep is how long a final answer waits that no network takes now; 0: it does not wait.
	Keep time.Duration
	// Leads reports whether this process may still act; it is asked before each call of a network. Nil: it always may.
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
	marking  sync.Map // the instances whose gateways mark their last answers
}

// New makes an Outbound. It starts nothing.
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

// Attachment is the session of a gateway that makes requests. Its methods are called from the session's goroutines.
type Attachment interface {
	// Identities returns the bots that its hellos named, in order.
	Identities() []relay.Bot
	// Revoked reports whether its credential is dead: then nothing begins any more.
	Revoked() bool
	// Asks notes what a request tells about the gateway's version. It may wait for a commit.
	Asks(context.Context, relay.Request)
	// Heard reports what the gateway does in a conversation. It does not block.
	Heard(delivery.Conversation, delivery.Sign)
}

// Caller is a gateway that makes requests through one session.
type Caller struct {
	out        *Outbound
	attachment Attachment
	gateway    relay.GatewayID
	tenant     relay.TenantID
	instance   relay.InstanceID
}

// Caller returns the gateway at the other end of the attachment, which serves the tenant's instance.
func (out *Outbound) Caller(a Attachment, g relay.GatewayID, t relay.TenantID, i relay.InstanceID) Caller {
	return Caller{out: out, attachment: a, gateway: g, tenant: t, instance: i}
}

// recordWithin bounds a write that must still happen after an action's own time ran out.
const recordWithin = 5 * time.Second

// internal returns the error for a gateway if the database could not be asked: not sent, worth trying again.
func internal(err error) error {
	if _, ok := errors.AsType[*relay.ActionError](err); ok {
		return err
	}
	return relay.Later("the connector's database is not available", err)
}
