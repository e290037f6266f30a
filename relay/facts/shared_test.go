package facts

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/storetest"
)

// roomy is a bot of a network where others can join a direct chat.
type roomy struct {
	platforms.Bot
	shared, sees bool
	err          error
}

func (roomy) ID() relay.Bot { return relay.Bot{Platform: "chat", ID: "1"} }

func (r roomy) Shared(context.Context, relay.ChatID, relay.UserID) (bool, error) {
	return r.shared, r.err
}

func (r roomy) CanSee(context.Context, relay.Place, relay.UserID) (bool, error) { return r.sees, nil }

// TestADirectChatThatOthersJoined: where Ann linked herself her gateway acts as long as she and the bot are alone there, and
// then as long as she sees it, as in any other chat.
func TestADirectChatThatOthersJoined(t *testing.T) {
	db := storetest.Open(t, t.TempDir(), store.Options{})
	now := time.Now()
	home := store.Instance{ID: "home", Tenant: relay.DefaultTenant, CreatedAt: now}
	for _, err := range []error{
		db.Enroll(t.Context(), nil, store.Gateway{ID: "home", Instance: "home", Tenant: home.Tenant, CreatedAt: now}, home),
		db.Bind(t.Context(), nil, store.Binding{Platform: "chat", User: "ann", Instance: "home", DMChat: "room", BoundAt: now}),
		db.Converse(t.Context(), store.Conversation{
			Instance: "home", Bot: roomy{}.ID(), Chat: "room", Type: relay.ChatDM, By: "ann", LastAt: now,
		}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		bot roomy
		may bool
	}{
		"alone":           {roomy{}, true},
		"with others":     {roomy{shared: true, sees: true}, true},
		"others alone":    {roomy{shared: true}, false},
		"nobody can tell": {roomy{err: errors.New("down")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := (&Facts{Stored: db}).Act(t.Context(), "home", tc.bot, "room")
			if (err != nil) != (tc.bot.err != nil) || err != nil && !relay.Explain(err).Retried() {
				t.Errorf("error %v", err)
			}
			if got := err == nil && gate.MayAct(f); got != tc.may || f.DirectWithBound == tc.bot.shared && err == nil {
				t.Errorf("%+v: may act: %t, want %t", f, got, tc.may)
			}
		})
	}
}
