package wake

import (
	"context"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Asked is the answer to Ask. The zero value means that the instance will be poked; each field is a reason why not.
type Asked struct {
	NoURL bool      // the instance has no wake URL
	Rests time.Time // it has quiet hours until then; zero: it has none now
	Since time.Time // when the newest poke began, less than a cooldown ago; zero: there was none
}

// Ask requests a poke for an instance that is not connected, even if no entry waits for it. It does not wait for the poke.
// Errors are the store's.
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
