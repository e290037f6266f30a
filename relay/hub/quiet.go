package hub

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/gate"
	"github.com/hermes-connector/hermes-connector/store"
)

// lookEvery is how long the hub relies on its computed end of quiet hours: in the meantime the machine may sleep, or
// its clock be set.
const lookEvery = time.Minute

// takes reports whether the session takes an entry now; see delivery.Outlet.
func (s *attachment) takes(ctx context.Context, e store.Entry) bool {
	return s.fronts(e.About.Bot) && !s.tooQuiet(ctx, e)
}

// tooQuiet reports whether an entry is to wait for the end of its instance's quiet hours. The pump looks at it anew
// then.
func (s *attachment) tooQuiet(ctx context.Context, e store.Entry) bool {
	i, err := store.Only(s.hub.db.Instances(ctx, s.peer.Instance))
	if err != nil {
		return false // the pump gets the store's error itself when it next reads there
	}
	until, rests := i.Rests(time.Now())
	if !rests {
		return false
	}
	if ev, _ := eventOf(e); gate.Urgent(ev) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loud != nil {
		s.loud.Stop()
	}
	s.loud = time.AfterFunc(min(time.Until(until), lookEvery), s.pump.Anew)
	return true
}

// hush ends the wait for the end of quiet hours: the pump is over.
func (s *attachment) hush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loud != nil {
		s.loud.Stop()
	}
}
