package discord

import (
	"context"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestReactionsToInteractionsAskNobody(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		i, err := decodeInteraction([]byte(`{"id":"77","type":2,"token":"t","channel_id":"42","channel":{"id":"42","type":1},"user":{"id":"7"},"data":{"name":"ask"}}`))
		if err != nil {
			t.Fatal(err)
		}
		var b platforms.Batch
		if f := (&feeder{Bot: p}); !f.add(ctx, &b, item{kind: kindInteraction, press: i}) || len(b.Events) != 1 {
			t.Fatalf("batch is %+v", b)
		}
		asked := len(f.paths())
		for _, remove := range []bool{false, true} {
			_, err := p.React(ctx, relay.React{Chat: chat, Message: b.Events[0].MessageID, Emoji: "👀", Remove: remove})
			if ae := failure(t, err); ae.Outcome != relay.NotSent || ae.Public != errUnknownMessage.Public {
				t.Errorf("error is %+v", ae)
			}
		}
		if got := f.paths()[asked:]; len(got) != 0 {
			t.Errorf("requests %q", got)
		}
	})
}

// TestReactionsToNothingAskOnce: a restart forgets which ids are those of interactions.
func TestReactionsToNothingAskOnce(t *testing.T) {
	onREST(t, func(t *testing.T, ctx context.Context, f *fakeREST, p *Bot) {
		f.fail("PUT /channels/42/messages/:id/reactions/:emoji/@me", restFault{status: 404, code: 10008, words: "Unknown Message"})
		for _, emoji := range []string{"👀", "✅"} {
			if _, err := p.React(ctx, relay.React{Chat: chat, Message: "77", Emoji: emoji}); failure(t, err).Public != errUnknownMessage.Public {
				t.Errorf("error is %v", err)
			}
		}
		if got := f.paths(); len(got) != 1 {
			t.Errorf("requests %q, want one", got)
		}
		if _, err := p.React(ctx, relay.React{Chat: chat, Message: "78", Emoji: "👀"}); err != nil {
			t.Errorf("another message: %v", err)
		}
	})
}
