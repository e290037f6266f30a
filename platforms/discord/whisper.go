package discord

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxWhispers is how many whispers may wait; further ones are dropped, and the person sees that nothing happens.
	// whisperers is how many are sent at once, and whisperTime bounds one.
	maxWhispers = 256
	whisperers  = 4
	whisperTime = 10 * time.Second
)

// aside is a text that only one person reads, about their press.
type aside struct {
	to    platforms.Capability
	words string
}

// refused returns the function platforms.Batch.Refused for a batch with the given capabilities: it queues the words for
// whispering, which sends them with the press's capability.
func (h *hooks) refused(all []platforms.Capability) func(relay.EventID, string) {
	if len(all) == 0 {
		return nil
	}
	return func(press relay.EventID, words string) {
		i := slices.IndexFunc(all, func(c platforms.Capability) bool { return c.Event == press })
		if i < 0 {
			return
		}
		select {
		case h.asides <- aside{all[i], words}:
		default:
			h.log.Warn("discord press refused without words: too many wait", "event", press)
		}
	}
}

// whispering sends people the texts that only they read, until ctx ends.
func (h *hooks) whispering(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-h.asides:
			if err := h.whisper(ctx, a); err != nil {
				h.log.Warn("discord press refused without words", "event", a.to.Event, "err", err)
			}
		}
	}
}

// whisper sends a follow-up that only the person sees. It is not repeated, because the person would read it twice.
func (h *hooks) whisper(ctx context.Context, a aside) error {
	ctx, cancel := context.WithTimeout(ctx, whisperTime)
	defer cancel()
	if err := h.answerable(ctx, a.to); err != nil {
		return err
	}
	body := h.message(a.words)
	body.Flags |= discordgo.MessageFlagsEphemeral
	return h.wield(ctx, h.turns.Outside(), a.to, request{method: http.MethodPost, endpoint: h.hook(a.to), body: body}, nil)
}
