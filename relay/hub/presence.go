package hub

import (
	"context"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Connected reports whether a session serves the instance now.
func (h *Hub) Connected(i relay.InstanceID) bool { return h.serving(i) != nil }

// Serves reports whether a session of the gateway serves its instance now.
func (h *Hub) Serves(g relay.GatewayID, i relay.InstanceID) bool {
	s := h.serving(i)
	return s != nil && s.peer.Gateway == g
}

// Answers reports whether a session of the gateway serves its instance, and the gateway gives a sign of life now,
// within three seconds: a socket outlives the host at its other end by most of a minute.
func (h *Hub) Answers(ctx context.Context, g relay.GatewayID, i relay.InstanceID) bool {
	s := h.serving(i)
	return s != nil && s.peer.Gateway == g && s.session.Answers(ctx)
}

// Awake reports whether a session serves the instance now and its gateway has not said that it goes idle.
func (h *Hub) Awake(i relay.InstanceID) bool {
	s := h.serving(i)
	return s != nil && !s.pump.Flipped()
}

// Active returns when the gateway that serves the instance last acknowledged or requested something; zero: not yet, or
// none serves it.
func (h *Hub) Active(i relay.InstanceID) time.Time {
	s := h.serving(i)
	if s == nil || s.active.Load() == 0 {
		return time.Time{}
	}
	return time.Unix(0, s.active.Load())
}

// Warning returns what an operator should know about an instance; empty: nothing.
func (h *Hub) Warning(i relay.InstanceID) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.instanceLocked(i).takeovers.restless(time.Now()) {
		return "copied_credential"
	}
	return ""
}

// Fronts reports whether the session that serves the instance serves one of the bots. It is also true while no session
// serves the instance, or no hello has come yet.
func (h *Hub) Fronts(i relay.InstanceID, bots ...relay.Bot) bool {
	s := h.serving(i)
	if s == nil || slices.ContainsFunc(bots, relay.Bot.IsProgram) {
		return true
	}
	said := s.Identities()
	return len(said) == 0 || slices.ContainsFunc(said, func(id relay.Bot) bool {
		return slices.ContainsFunc(bots, func(b relay.Bot) bool { return standsFor(id, b) })
	})
}

// Unfronted returns the bots whose events wait because the session that serves the instance does not serve those bots.
// The events may have left the buffer since.
func (h *Hub) Unfronted(i relay.InstanceID) []relay.Bot {
	s := h.serving(i)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unfronted)
}
