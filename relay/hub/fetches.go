package hub

import (
	"context"
	"slices"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Gateways of June and July 2026 cannot fetch files, and do not say so. What they never do tells them: one that has
// answered some events with messages, and used nothing but what those have, is too old, until it uses something newer.
// (That it names its identity, as gateways of July do, says nothing here; see age.go.) The answers are counted in memory,
// over all sessions: after a restart it is asked anew, and only the outcome is worth a commit.

const (
	// answeredEnough is after how many answers a gateway that used nothing newer is too old.
	answeredEnough = 3
	// maxUnanswered is of how many chats it is remembered that something was delivered there and not answered.
	maxUnanswered = 64
)

// replies are what a gateway was given and answered, while nothing is known of its age.
type replies struct {
	open []relay.Chat // where something was delivered and not answered
	done int
}

// given notes that an event of the chat was delivered.
func (a *replies) given(c relay.Chat) {
	if len(a.open) < maxUnanswered && !slices.Contains(a.open, c) {
		a.open = append(a.open, c)
	}
}

// wrote notes that the gateway wrote in the chat, and reports whether it has now answered enough.
func (a *replies) wrote(c relay.Chat) (enough bool) {
	i := slices.Index(a.open, c)
	if i < 0 {
		return false
	}
	a.open = slices.Delete(a.open, i, i+1)
	a.done++
	return a.done >= answeredEnough
}

// ofFetchers reports whether only gateways that fetch files ask for such an action.
func ofFetchers(a relay.Action) bool {
	switch a.(type) {
	case relay.Send, relay.GetChatInfo, relay.FollowUp:
		return false
	}
	return true
}

// tooOld reports whether the gateway cannot fetch files.
func (s *seat) tooOld() bool { return s.old.Load() && !s.fetches.Load() }

// unjudged reports whether it is not known yet.
func (s *seat) unjudged() bool { return !s.old.Load() && !s.fetches.Load() }

// given notes that an event of the chat was delivered.
func (s *seat) given(c relay.Chat) {
	if s.unjudged() {
		s.hub.sockets.repliesOf(s.peer.Gateway, func(a *replies) { a.given(c) })
	}
}

// wrote notes that the gateway wrote in the chat.
func (s *seat) wrote(ctx context.Context, c relay.Chat) {
	if !s.unjudged() {
		return
	}
	enough := false
	s.hub.sockets.repliesOf(s.peer.Gateway, func(a *replies) { enough = a.wrote(c) })
	if !enough || s.old.Swap(true) {
		return
	}
	if err := s.hub.db.UpdateGateway(ctx, nil, s.peer.Gateway, func(g *store.Gateway, _ *store.Instance) error {
		g.TooOld = !g.Fetches
		return nil
	}); err != nil {
		s.hub.log.Warn("not recorded that a gateway is too old to fetch files", "gateway", s.peer.Gateway, "err", err)
	}
}

// fetcher notes that the gateway fetches files, by what it asked for.
func (s *seat) fetcher(ctx context.Context) {
	if !s.fetches.Load() {
		s.hub.Fetches(ctx, s.peer.Gateway)
		s.fetches.Store(true) // also of a session that the hub does not know any more
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
