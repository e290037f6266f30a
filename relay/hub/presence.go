package hub

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Connected reports whether a session serves the instance now.
func (h *Hub) Connected(i relay.InstanceID) bool { return h.seat(i) != nil }

// Serves reports whether a session of the gateway serves its instance now.
func (h *Hub) Serves(g relay.GatewayID, i relay.InstanceID) bool {
	s := h.seat(i)
	return s != nil && s.peer.Gateway == g
}

// Answers is Serves for a session whose gateway gives a sign of life now, within three seconds: a socket outlives
// the host at its other end by most of a minute.
func (h *Hub) Answers(ctx context.Context, g relay.GatewayID, i relay.InstanceID) bool {
	s := h.seat(i)
	return s != nil && s.peer.Gateway == g && s.session.Answers(ctx)
}

// Awake reports whether a session serves the instance now whose gateway did not say that it goes idle.
func (h *Hub) Awake(i relay.InstanceID) bool {
	s := h.seat(i)
	return s != nil && !s.pump.Flipped()
}

// Warning is what an operator should know about an instance; empty: nothing.
func (h *Hub) Warning(i relay.InstanceID) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.instanceLocked(i).takeovers.restless(time.Now()) {
		return "copied_credential"
	}
	return ""
}
