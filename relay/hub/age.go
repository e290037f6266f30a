package hub

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// startTime is how long after its hello a gateway may still be starting, which takes a second or two. Events that it
// gets in that time it acknowledges at once: a gateway of June 2026 drops them, and one of August has them in memory
// only, so they are lost if the gateway is killed. A joined backlog can be lost as one event.
const startTime = 5 * time.Second

// letStart waits, startTime at most, until the gateway has had time to start:
//   - with a backlog and a gateway that dials as the real ones do (Stock), always the whole startTime;
//   - with a backlog and any other program, until it shows that it is newer than June;
//   - without a backlog, until a Stock gateway shows that it is newer; for any other program it does not wait.
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

// newerThanJune reports whether r shows that the gateway is newer than those of June, which name no identity.
func newerThanJune(r relay.Request) bool {
	return notOfJune(r.Action) || r.Platform != "" || r.Bot != ""
}

// notOfJune reports whether gateways of June do not know such an action: they know three. Gateways that know it fetch
// files, too.
func notOfJune(a relay.Action) bool {
	switch a.(type) {
	case relay.Send, relay.GetChatInfo, relay.FollowUp:
		return false
	}
	return true
}

// recordNewer records, once, that the gateway is newer than those of June, so that its next sessions need not wait for
// a sign of that.
func (s *attachment) recordNewer(ctx context.Context) {
	if !s.markNewer() {
		return
	}
	if err := s.hub.db.UpdateGateway(ctx, nil, s.peer.Gateway, func(g *store.Gateway, _ *store.Instance) error {
		g.Newer = true
		return nil
	}); err != nil {
		s.hub.log.Warn("gateway's age not recorded; its next session waits again", "gateway", s.peer.Gateway, "err", err)
	}
}

// markNewer notes for this session that the gateway is newer, which ends letStart. It reports whether that is news.
func (s *attachment) markNewer() bool {
	if s.isNewer.Swap(true) {
		return false
	}
	close(s.newer)
	return true
}
