package manage

import (
	"context"

	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

// process is the running server itself, and its web pages.
type process struct {
	*surroundings
	db  *store.DB
	web *login.Desk
}

// Reloaded lists what a running server took over from a changed configuration. Bots are named "platform:id".
type Reloaded struct {
	Added   []string `json:"added"`
	Changed []string `json:"changed"` // started anew
	Removed []string `json:"removed"`
	// Restart lists the settings that differ from those the server runs with, and that it takes over with its next
	// start.
	Restart []string `json:"restart"`
}

// Reload makes the running server read its configuration again. It is refused with Usage, and changes nothing, if the
// configuration has a fault.
func (s *process) Reload(ctx context.Context, by audit.Actor, _ struct{}) (Reloaded, error) {
	if s.set.Reload == nil {
		return Reloaded{}, refuse(Offline, "no server is running: the next start reads the configuration")
	}
	return s.set.Reload(ctx, by.Name)
}

// Health is a short form of the server's state.
type Health struct {
	OK    bool   `json:"ok"`    // the server accepts messages
	Ready bool   `json:"ready"` // OK, and every bot's updates flow
	Why   string `json:"why,omitempty"`
}

// Health returns whether the server does its work. If no server runs, OK is false.
func (s *process) Health(context.Context, struct{}) (Health, error) {
	if s.live == nil {
		return Health{Why: "no server is running"}, nil
	}
	if err := s.db.Probe(); err != nil {
		return Health{Why: "no message is accepted: " + err.Error()}, nil
	}
	h := Health{OK: true, Ready: s.live.Ready()}
	if !h.Ready {
		h.Why = "not every bot is connected"
	}
	return h, nil
}
