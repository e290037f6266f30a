package hub

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/loopback"
	"github.com/hermes-connector/hermes-connector/relay"
)

// witness answers CanSee as told, and counts.
type witness struct {
	*loopback.Platform
	asked atomic.Int32
	fails atomic.Int32 // how many of the next answers are errors
}

func (w *witness) CanSee(context.Context, relay.Place, relay.UserID) (bool, error) {
	w.asked.Add(1)
	if w.fails.Add(-1) >= 0 {
		return false, errors.New("busy")
	}
	return true, nil
}

func TestVisibilityIsAskedOncePerMinuteAndAFailureIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{Platform: loopback.New(loopback.NewNetwork(), nil)}
		var v visibility
		see := func(b batch) bool { return b.canSee(t.Context(), w, relay.Place{Chat: "garden"}, "ann") }
		expect := func(what string, want bool, asked int32, got bool) {
			t.Helper()
			if got != want || w.asked.Load() != asked {
				t.Errorf("%s: %v after %d questions, want %v after %d", what, got, w.asked.Load(), want, asked)
			}
		}
		expect("first", true, 1, see(v.batch()))
		expect("within the minute", true, 1, see(v.batch()))
		time.Sleep(visibleFor)
		w.fails.Store(2)
		expect("a failure is put again", true, 4, see(v.batch()))
		time.Sleep(visibleFor)
		w.fails.Store(1_000)
		b := v.batch()
		began := time.Now()
		if see(b) {
			t.Error("an unanswered question counts as yes")
		}
		if took := time.Since(began); took != visibleWithin {
			t.Errorf("gave up after %s, want %s", took, visibleWithin)
		}
		before := w.asked.Load()
		expect("again within the batch", false, before, see(b))
		w.fails.Store(0)
		expect("the next batch asks", true, before+1, see(v.batch()))
	})
}

func TestAnAnswerFromBeforeAChangeIsNotRemembered(t *testing.T) {
	var v visibility
	key := sight{place: relay.Place{Chat: "garden"}, user: "ann"}
	v.mu.Lock()
	epoch := v.epoch
	v.mu.Unlock()
	v.forget(key.bot, []platforms.RosterChange{{Chat: "garden"}})
	v.remember(key, true, epoch)
	if len(v.known) != 0 {
		t.Error("an answer fetched before the change is believed after it")
	}
}
