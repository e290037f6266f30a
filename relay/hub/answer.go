package hub

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// answerWithin bounds one answer to a control message.
	answerWithin = 25 * time.Second
	// answerers is how many answers are on their way at once, so that one chat's rate limit does
	// not hold up the others.
	answerers = 4
)

// reply is an answer to a control message, on its way into the chat it came from.
type reply struct {
	bot  relay.Bot
	send relay.Send
}

// answer puts text on its way into the chat of ev. It does not block: Accept must not wait for a
// platform. A person whose answer is lost in a flood or a crash types the command again.
func (h *Hub) answer(ev relay.Event, text string) {
	r := reply{ev.Bot, relay.Send{
		Chat: ev.Source.ChatID, Content: text, ReplyTo: ev.MessageID,
		Meta: relay.Metadata{ThreadID: ev.Source.ThreadID, Notify: true},
	}}
	select {
	case h.replies <- r:
	default:
		h.counters.add("answer_dropped", 1)
	}
}

func (h *Hub) answerLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-h.replies:
			h.say(ctx, r)
		}
	}
}

func (h *Hub) say(ctx context.Context, r reply) {
	p := h.platform(r.bot)
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if _, err := p.Send(ctx, r.send); err != nil {
		h.log.Warn("answer to a control message did not go out", keyBot, r.bot.String(), keyErr, err)
	}
}
