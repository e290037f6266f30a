package hub

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// startTime is how long after its first hello nothing is pushed to a gateway that may be starting, which takes a second
// or two. One of June 2026 acknowledges what it is given meanwhile, and drops it. One of August acknowledges it, and keeps
// it in memory alone until it has started: killed before, it has lost it, and a backlog may be one event.
const startTime = 5 * time.Second

// letStart waits until the gateway has had time to start. One that shows that it is newer than June is waited for only
// if it dials as the real gateways do and entries wait for it. A program that does not dial like that, and for which none
// waits, is not waited for.
func (s *attachment) letStart(ctx context.Context) {
	l, err := s.hub.db.Lanes.State(ctx, s.peer.Instance)
	backlog, newer := err != nil || l.Entries > 0, s.newer
	switch {
	case !backlog && !s.peer.Stock:
		return
	case backlog && s.peer.Stock:
		newer = nil
	}
	t := time.NewTimer(startTime)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-newer:
	case <-t.C:
	}
}

// requestOfNow reports whether gateways of June never make such a request: they name no identity, and do three things.
func requestOfNow(r relay.Request) bool {
	switch r.Action.(type) {
	case relay.Send, relay.GetChatInfo, relay.FollowUp:
		return r.Platform != "" || r.Bot != ""
	}
	return true
}

// isNewer notes that the gateway is younger than those of June, once: its next sessions do not wait.
func (s *attachment) isNewer(ctx context.Context) {
	if !s.grow() {
		return
	}
	if err := s.hub.db.UpdateGateway(ctx, nil, s.peer.Gateway, func(g *store.Gateway, _ *store.Instance) error {
		g.Newer = true
		return nil
	}); err != nil {
		s.hub.log.Warn("gateway's age not recorded; its next session waits again", "gateway", s.peer.Gateway, "err", err)
	}
}

// grow ends letStart, and reports whether the gateway was not known to be newer before.
func (s *attachment) grow() bool {
	if s.grown.Swap(true) {
		return false
	}
	close(s.newer)
	return true
}
