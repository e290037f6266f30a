package hub

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// errandWithin bounds one errand.
	errandWithin = 25 * time.Second
	// runners is how many errands are under way at once, so that one chat's rate limit does not
	// hold up the others.
	runners = 4
)

// errand is something small to say or do on a platform that nobody waits for: an answer to a
// control message, a placeholder to take away.
type errand func(context.Context) error

// later puts an errand on its way. It does not block: Accept and the sessions' readers must not
// wait for a platform. When too many wait it is dropped and counted under the name; a person whose
// answer is lost in a flood or a crash types the command again.
func (h *Hub) later(dropped string, do errand) {
	select {
	case h.errands <- do:
	default:
		h.counters.add(dropped, 1)
	}
}

func (h *Hub) errandLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case do := <-h.errands:
			h.run(ctx, do)
		}
	}
}

func (h *Hub) run(ctx context.Context, do errand) {
	ctx, cancel := context.WithTimeout(ctx, errandWithin)
	defer cancel()
	if err := do(ctx); err != nil {
		h.log.Warn("an answer of the connector's own did not go out", keyErr, err)
	}
}

// answer puts the answer to the control message ev on its way, through the capability the message
// came with if it has one.
func (h *Hub) answer(ev relay.Event, text string, c *platforms.Capability) {
	send := relay.Send{
		Chat: ev.Source.ChatID, Content: text, ReplyTo: ev.MessageID,
		Meta: relay.Metadata{ThreadID: ev.Source.ThreadID, Notify: true},
	}
	p := h.platform(ev.Bot)
	h.later("answer_dropped", func(ctx context.Context) error {
		r, ok := p.(platforms.Responder)
		if c != nil && ok {
			if _, err := r.Respond(ctx, *c, send, c.Placeholder); err == nil {
				return nil
			}
		}
		_, err := p.Send(ctx, send)
		return err
	})
}
