package wake

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/store"
)

// consider reads the state of an instance that is due, and pokes the instance, forgets it, or sets when it is due next.
// It reports whether further requests may begin.
func (w *Waker) consider(ctx context.Context, i relay.InstanceID) bool {
	w.mu.Lock()
	t, full := w.targets[i], w.running.full()
	t.grew = false
	w.mu.Unlock()
	if full {
		return false
	}

	inst, entries, err := w.read(ctx, i)
	connected := w.live.Awake(i) // checked last, so that a gateway that connected meanwhile is not poked
	if err != nil && ctx.Err() == nil {
		w.opts.Log.Warn("the waiting instance could not be read; it is looked at again later", "instance", i, "in", w.opts.Cooldown, "err", err)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	until, rests := inst.Rests(now)
	if err == nil && inst.WakeURL == "" {
		delete(w.last, i)
	}
	t.asked = t.asked && !connected
	if connected || (!t.poked.IsZero() && inst.LastSeenAt.After(t.poked)) {
		t.came(w.opts.Cooldown)
	}
	switch {
	case err != nil:
		t.look = now.Add(w.opts.Cooldown)
	case entries == 0 && !t.asked || inst.WakeURL == "":
		w.settleLocked(i, t, now)
	case rests:
		t.look = now.Add(min(until.Sub(now), w.opts.Cooldown)) // the clock may be set
	case connected || t.next.After(now):
		t.later(now, w.opts.Cooldown)
	default:
		t.share = shareOf(inst)
		if !w.running.open(t.share) {
			return true // the instance stays due, and instances with another share may have a place
		}
		t.busy, t.asked, t.poked, t.next = true, false, now, now.Add(t.pause)
		t.pause = min(2*t.pause, w.opts.Most)
		w.running.add(t.share, 1)
		w.pokes.Go(func() { w.poke(ctx, i, t, inst.WakeURL) })
	}
	return !w.running.full()
}

// read reads the instance from the store, and how many entries wait. An instance that does not exist has none.
func (w *Waker) read(ctx context.Context, i relay.InstanceID) (store.Instance, int, error) {
	inst, err := store.Only(w.db.Instances(ctx, i))
	if errors.Is(err, store.ErrNotFound) {
		return store.Instance{}, 0, nil
	}
	if err != nil {
		return store.Instance{}, 0, err
	}
	lane, err := w.lanes.State(ctx, i)
	return inst, lane.Entries, err
}

// settleLocked forgets an instance that needs no poke, unless entries came while its state was read, or the cooldown
// since its last poke must be remembered. w.mu is held.
func (w *Waker) settleLocked(i relay.InstanceID, t *target, now time.Time) {
	if t.grew {
		t.look = now
		w.signal()
		return
	}
	t.came(w.opts.Cooldown)
	if t.next.After(now) {
		t.look = t.next
		return
	}
	delete(w.targets, i)
}

// poke sends one request, and stores and logs its result.
func (w *Waker) poke(ctx context.Context, i relay.InstanceID, t *target, wakeURL string) {
	status, err := w.send(ctx, wakeURL)
	var done *Poke
	if ctx.Err() == nil {
		result, level := count.WakeSent, slog.LevelDebug
		switch {
		case errors.Is(err, guard.ErrBlocked):
			result, level = count.WakeBlocked, slog.LevelInfo // for good, until the operator does something
		case err != nil || status >= http.StatusBadRequest:
			result = count.WakeFailed
		}
		done = &Poke{At: time.Now().UTC(), Woken: result == count.WakeSent, Status: status, Reason: guard.Why(err)}
		w.opts.Count(result)
		w.opts.Log.Log(ctx, level, "instance poked", "instance", i, "result", result, "status", status, "reason", done.Reason)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if done != nil {
		w.last[i] = done
	}
	t.busy = false
	t.later(time.Now(), w.opts.Cooldown)
	w.running.add(t.share, -1)
	w.signal()
}

// send makes one GET without a body. It does not read the answer's body.
func (w *Waker) send(ctx context.Context, wakeURL string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, wakeURL, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("User-Agent", "hermes-connector")
	res, err := w.get.Do(r)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
