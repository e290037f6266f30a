package hub

import (
	"context"
	"errors"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
)

// answer puts the answer to the control message ev on its way, through the capability the message
// came with if it has one.
func (h *Hub) answer(ev relay.Event, text string, c *platforms.Capability) {
	send := relay.Send{
		Chat: ev.Source.ChatID, Content: text, ReplyTo: ev.MessageID,
		Meta: relay.Metadata{ThreadID: ev.Source.ThreadID, Notify: true},
	}
	p := h.platform(ev.Bot)
	h.later(count.AnswerDropped, errand{until: time.Now().Add(errandLife), urgent: true, do: func(ctx context.Context) error {
		if r, ok := p.(platforms.Responder); c != nil && ok {
			if _, err := r.Respond(ctx, *c, send, c.Placeholder); !errors.Is(err, platforms.ErrCapabilityGone) {
				return err
			}
		}
		_, err := p.Send(ctx, send)
		return err
	}})
}
