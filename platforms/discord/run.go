package discord

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/gateway"
	"github.com/hermes-connector/hermes-connector/relay"
)

// maxAcks is how many interactions are acknowledged at once. Others wait, for ackBudget at most.
const maxAcks = 256

// errNoTurn: too many other interactions were being answered for this one to be answered in time.
var errNoTurn = errors.New("too many at once")

// runner is the state of one Run: it puts the gateway's dispatches into the feeder's queue, and keeps the budget of new
// sessions. It implements gateway.Handler and gateway.Ledger.
type runner struct {
	*Bot
	queue *queue
	slots chan struct{} // capacity maxAcks: one is taken per interaction being answered
	wg    *sync.WaitGroup
}

// Run implements platforms.Bot. It starts the goroutines of the feeder, of tidy, of whispering, of the slash commands,
// of the gateway's socket, and one for each interaction being answered, and returns when all have ended.
func (p *Bot) Run(ctx context.Context, in platforms.Inbox) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer p.rest.CloseIdle()
	defer wg.Wait()
	defer cancel()

	p.status.Set(platforms.Connecting, "")
	r := &runner{Bot: p, queue: newQueue(), slots: make(chan struct{}, maxAcks), wg: &wg}
	f := &feeder{Bot: p, in: in, queue: r.queue}
	// The feeder ends after the socket, so that it sees all that was put into the queue.
	feeding, stopFeeding := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFeeding()
	p.holding.open(r.queue)
	defer p.holding.open(nil) // before the feeder ends
	wg.Go(func() { p.tidy(feeding) })
	for range whisperers {
		wg.Go(func() { p.whispering(feeding) })
	}
	p.recall(ctx, in)
	wg.Go(func() { f.run(feeding) })
	wg.Go(func() { p.commands.Run(ctx) })

	err := gateway.New(gateway.Options{
		Rest: p.rest, Settings: p.opts, Status: p.status, Log: p.log, Handler: r, Ledger: r,
	}, p.memory.read().Session).Run(ctx)
	switch {
	case errors.Is(err, relay.ErrBadCredentials):
		p.status.Set(platforms.BadCredentials, "Discord does not accept the token; check the token file, "+
			"or reset the token in the developer portal under Bot")
	case err != nil:
		p.status.Set(platforms.Stopped, err.Error())
	default:
		p.status.Set(platforms.Stopped, "")
	}
	return err
}

// recall loads the stored state, and tries again until the store answers. In place of a state that makes no sense it
// begins with an empty one.
func (p *Bot) recall(ctx context.Context, in platforms.Inbox) {
	retry := gateway.Retries(p.opts)
	retry.Keep(ctx, func() error {
		raw, err := in.Cursor(ctx)
		if err != nil {
			return err
		}
		s, err := readState(raw, p.base)
		if err != nil {
			p.log.Warn("discord state makes no sense; beginning a new session", "err", err)
		}
		p.memory.recall(s)
		p.status.SetName(s.Name)
		return nil
	}, func(err error, in time.Duration) {
		p.status.Set(platforms.Connecting, "the stored position cannot be read")
		p.log.Warn("discord position not read; trying again", "in", in, "err", err)
	})
}

func (r *runner) Relax(ctx context.Context) bool { return r.queue.relax(ctx) }

// Begin implements gateway.Handler: it puts the beginning of the session into the queue.
func (r *runner) Begin(p gateway.Packet, s gateway.Session, d gateway.Ready) error {
	i := item{seq: s.Seq, begun: &s}
	i.roster, _ = r.Apply(p.Kind, p.Data)
	r.memory.change(true, func(st *state) { st.Application, st.Name = d.Application.ID, d.User.Name })
	return r.enqueue(i)
}

// Dispatch implements gateway.Handler: it puts an item for the dispatch into the queue, and starts the call-back of an
// interaction.
func (r *runner) Dispatch(ctx context.Context, p gateway.Packet) error {
	i := item{seq: p.Seq}
	switch p.Kind {
	case kindMessage:
		i.kind, i.data = p.Kind, p.Data
	case kindInteraction:
		i.data = withoutToken(p.Data)
		if i.press, i.err = decodeInteraction(p.Data); i.err == nil {
			i.kind = p.Kind
			r.answer(ctx, i.press) // before anything that could wait
		}
	default:
		if i.roster, i.err = r.Apply(p.Kind, p.Data); i.err != nil {
			i.data = p.Data[:min(len(p.Data), gateway.HeadBytes)]
		}
	}
	return r.enqueue(i)
}

// Skipped implements gateway.Handler. It keeps what came of a message, and nothing of any other dispatch: the beginning
// of an interaction may contain its token, which cannot be cut out of half an object.
func (r *runner) Skipped(p gateway.Packet, err error) error {
	if p.Kind != kindMessage {
		p.Data = nil
	}
	return r.enqueue(item{seq: p.Seq, data: p.Data, err: err})
}

// enqueue hands an item to the feeder.
func (r *runner) enqueue(i item) error {
	if !r.queue.put(i) {
		return gateway.ErrFull
	}
	return nil
}

func (r *runner) Budget() gateway.Budget { return r.memory.read().Budget }

func (r *runner) ChangeBudget(soon bool, change func(*gateway.Budget)) {
	r.memory.change(soon, func(s *state) { change(&s.Budget) })
}

// answer acknowledges an interaction on a goroutine of its own, because Discord waits three seconds only and the disk
// may take longer.
func (r *runner) answer(ctx context.Context, i *interaction) {
	end := r.callbacks.begin(i.ID.String())
	r.wg.Go(func() {
		// Also while we stop: a person waits for the answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackBudget)
		defer cancel()
		err := errNoTurn
		select {
		case r.slots <- struct{}{}:
			err = r.acknowledge(ctx, i)
			<-r.slots
		case <-ctx.Done():
		}
		end(err)
		if err != nil {
			r.log.Warn("discord interaction not acknowledged", "err", err)
		}
	})
}
