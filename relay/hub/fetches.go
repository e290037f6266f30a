package hub

import (
	"context"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Gateways of June and July 2026 cannot fetch files, and do not say so. Their behaviour shows it: newer ones fetch the
// files of a message before they acknowledge it. So a gateway that acknowledges without having fetched anything is too
// old, until it fetches, or uses an op that only newer ones have. (Whether a gateway names its identity, by which
// age.go judges, shows nothing here: gateways of July do so.)

// tooOld reports whether the gateway cannot fetch files.
func (s *attachment) tooOld() bool { return s.old.Load() && !s.fetches.Load() }

// unjudged reports whether it is not known yet whether the gateway can fetch files.
func (s *attachment) unjudged() bool { return !s.old.Load() && !s.fetches.Load() }

// offers notes that the event is given with files that the gateway could fetch.
func (s *attachment) offers(of store.About) {
	if !s.unjudged() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offered = append(s.offered, of)
}

// unfetched judges the gateway after it has taken an event, if the event had files to fetch.
func (s *attachment) unfetched(ctx context.Context, of store.About) {
	s.mu.Lock()
	n := len(s.offered)
	s.offered = slices.DeleteFunc(s.offered, func(o store.About) bool { return o.Bot == of.Bot && o.ID == of.ID })
	offered := len(s.offered) < n
	s.mu.Unlock()
	if !offered || !s.unjudged() || s.old.Swap(true) {
		return
	}
	if err := s.hub.db.UpdateGateway(ctx, nil, s.peer.Gateway, func(g *store.Gateway, _ *store.Instance) error {
		g.TooOld = !g.Fetches
		return nil
	}); err != nil {
		s.hub.log.Warn("not recorded that a gateway is too old to fetch files", "gateway", s.peer.Gateway, "err", err)
	}
}

// fetcher notes, from what it requested, that the gateway fetches files.
func (s *attachment) fetcher(ctx context.Context) {
	if !s.fetches.Load() {
		s.hub.Fetches(ctx, s.peer.Gateway)
		s.fetches.Store(true) // also in a session that the hub no longer knows
	}
}

// Fetches notes that the gateway fetches files: it used the media route. It waits for one commit, once in the gateway's
// life.
func (h *Hub) Fetches(ctx context.Context, g relay.GatewayID) {
	for _, s := range h.sockets.of(g) {
		s.fetches.Store(true)
	}
	if r, err := store.Only(h.db.Gateways(ctx, g)); err == nil && r.Fetches {
		return
	}
	if err := h.db.UpdateGateway(ctx, nil, g, func(g *store.Gateway, _ *store.Instance) error {
		g.Fetches, g.TooOld = true, false
		return nil
	}); err != nil {
		h.log.Warn("not recorded that a gateway fetches files; its next session tries again", "gateway", g, "err", err)
	}
}
