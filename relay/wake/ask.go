package wake

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Asked is what became of a wish to have an instance poked.
type Asked struct {
	NoURL bool      // it has no wake URL
	Rests time.Time // it is given nothing until then; zero: it does not rest
	// Since is when the newest poke began, if that is less than a cooldown ago: then there is no other one now.
	Since time.Time
}

// Ask has an instance poked that is not connected, though nothing may wait for it, unless it was poked within the cooldown. It
// does not wait for the poke. Errors are the store's.
func (w *Waker) Ask(ctx context.Context, i relay.InstanceID) (a Asked, err error) {
	inst, err := store.Only(w.db.Instances(ctx, i))
	if err != nil {
		return a, err
	}
	now := time.Now()
	if until, rests := inst.Rests(now); rests {
		a.Rests = until
	}
	if a.NoURL = inst.WakeURL == ""; a.NoURL || !a.Rests.IsZero() {
		return a, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.targets[i]
	if t == nil {
		t = &target{pause: w.opts.Cooldown}
		w.targets[i] = t
	}
	if !t.poked.IsZero() && now.Sub(t.poked) < w.opts.Cooldown {
		a.Since = t.poked
		return a, nil
	}
	t.asked, t.next, t.look = true, now, now
	w.signal()
	return a, nil
}
