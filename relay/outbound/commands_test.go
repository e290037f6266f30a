package outbound

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// knower is a bot that has to know the gateways' commands.
type knower struct {
	platforms.Bot
	platforms.CommandNames
}

// TestCommandsAreKnown: a gateway declares its commands for Discord or for the bot's own network, and the bot knows them.
func TestCommandsAreKnown(t *testing.T) {
	db, err := store.Open(filepath.Join(t.TempDir(), "connector.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	i := store.Instance{ID: "home", Tenant: relay.DefaultTenant, CreatedAt: time.Now()}
	if err := db.Enroll(t.Context(), nil, store.Gateway{ID: "home", Instance: i.ID, Tenant: i.Tenant, CreatedAt: i.CreatedAt}, i); err != nil {
		t.Fatal(err)
	}
	bot := &knower{Bot: local.NewLoopback(local.NewNetwork(), nil)}
	cs := &Commands{db: db, bots: hosts{bot}}
	for on, name := range map[relay.PlatformID]string{"discord": "weather", local.LoopbackID: "tides", "nowhere": "moon"} {
		if err := cs.Learn(t.Context(), i.ID, on, []json.RawMessage{json.RawMessage(`{"name":"` + name + `"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := cs.Show(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for text, known := range map[string]bool{"!weather": true, "!tides": true, "!moon": false} {
		if _, ok := bot.Slashed(text); ok != known {
			t.Errorf("%s is known: %v, want %v", text, ok, known)
		}
	}
}
