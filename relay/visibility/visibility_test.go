package visibility

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
)

// witness answers CanSee as told, and counts.
type witness struct {
	*local.Loopback
	asked atomic.Int32
	fails atomic.Int32 // how many of the next answers are errors

	during func() // while it is asked; nil: nothing
}

func (w *witness) CanSee(context.Context, relay.Place, relay.UserID) (bool, error) {
	w.asked.Add(1)
	if w.during != nil {
		w.during()
	}
	if w.fails.Add(-1) >= 0 {
		return false, errors.New("busy")
	}
	return true, nil
}

func TestVisibilityIsAskedOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{Loopback: local.NewLoopback(local.NewNetwork(), nil)}
		var c Cache
		key := Of{Bot: w.ID(), Place: relay.Place{Chat: "garden"}, User: "ann"}
		expect := func(what string, want bool, asked int32) {
			t.Helper()
			got, err := c.Ask(t.Context(), w, key, time.Now().Add(Within))
			if got != want || err != nil || w.asked.Load() != asked {
				t.Errorf("%s: %v, %v after %d questions, want %v after %d", what, got, err, w.asked.Load(), want, asked)
			}
		}
		expect("first", true, 1)
		expect("within the minute", true, 1)
		time.Sleep(Believed)
		w.fails.Store(2)
		expect("a failure is put again", true, 4)
		time.Sleep(Believed)
		w.fails.Store(1_000)
		began := time.Now()
		expect("an unanswered question", false, 5+int32(Within/Retry))
		if took := time.Since(began); took != Within {
			t.Errorf("gave up after %s, want %s", took, Within)
		}
		w.fails.Store(0)
		before := w.asked.Load()
		expect("a failure is remembered", false, before)
		time.Sleep(Unknown)
		expect("but not for long", true, before+1)
	})
}

func TestWhoWritesInAChatSeesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Cache
		key := Of{Place: relay.Place{Chat: "garden"}, User: "ann"}
		c.Observe(key, time.Now().Add(-Believed))
		if _, known := c.Get(key); known {
			t.Error("what was written a minute ago proves something")
		}
		c.Observe(key, time.Now().Add(Believed)) // their clock is ahead of ours
		time.Sleep(Believed - time.Nanosecond)
		if sees, known := c.Get(key); !sees || !known {
			t.Error("what was written just now proves nothing")
		}
		time.Sleep(time.Nanosecond)
		if _, known := c.Get(key); known {
			t.Error("it proves something for more than a minute")
		}
	})
}

// TestAnAnswerFromBeforeAChangeDoesNotCount; one about somebody or something else does, however much
// changes there.
func TestAnAnswerFromBeforeAChangeDoesNotCount(t *testing.T) {
	for name, tc := range map[string]struct {
		change platforms.RosterChange
		want   int32 // questions
	}{
		"of that person in that chat":    {platforms.RosterChange{Chat: "garden", User: "ann"}, 2},
		"of everybody in that chat":      {platforms.RosterChange{Chat: "garden"}, 2},
		"of everything":                  {platforms.RosterChange{}, 2},
		"of somebody else in that chat":  {platforms.RosterChange{Chat: "garden", User: "eve"}, 1},
		"of that person in another chat": {platforms.RosterChange{Chat: "yard", User: "ann"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &witness{Loopback: local.NewLoopback(local.NewNetwork(), nil)}
				var c Cache
				w.during = func() {
					if w.asked.Load() == 1 {
						c.Forget(w.ID(), []platforms.RosterChange{tc.change})
					}
				}
				key := Of{Bot: w.ID(), Place: relay.Place{Chat: "garden"}, User: "ann"}
				if sees, err := c.Ask(t.Context(), w, key, time.Now().Add(Within)); !sees || err != nil {
					t.Errorf("sees = %t, %v", sees, err)
				}
				if n := w.asked.Load(); n != tc.want || len(c.asked) != 0 {
					t.Errorf("%d questions, %d under way; want %d, none", n, len(c.asked), tc.want)
				}
			})
		})
	}
}
