package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// TestPenaltySimulation: one instance has its many chats punished as it likes, for as long as it
// likes; the network now and then means the whole bot; and others, who do nothing to earn a penalty,
// never wait but in those times. Invariant 7.
func TestPenaltySimulation(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulatePenalties(t, rand.New(rand.NewPCG(seed, 2))) })
		})
	}
}

// mute is a time in which the network refuses the whole bot.
type mute struct{ from, to time.Time }

func simulatePenalties(t *testing.T, rnd *rand.Rand) {
	const answer, step = 50 * time.Millisecond, 2 * time.Minute
	g := New(Rates{})
	var mu sync.Mutex // guards rnd and the counts
	within := func(most time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(rnd.Int64N(int64(most)))
	}
	start := time.Now()
	end := start.Add(10 * step)
	var mutes []mute
	for at := start.Add(step); at.Before(end.Add(-step)); at = at.Add(2 * step) {
		from := at.Add(within(step))
		mutes = append(mutes, mute{from, from.Add(5*time.Second + within(40*time.Second))})
	}
	muted := func(now time.Time) time.Duration {
		for _, m := range mutes {
			if !now.Before(m.from) && now.Before(m.to) {
				return m.to.Sub(now)
			}
		}
		return 0
	}
	// near reports whether a mute, or what may remain of it, lies in the time.
	near := func(from, to time.Time) bool {
		for _, m := range mutes {
			if !to.Before(m.from) && from.Before(m.to.Add(shutFor+probeFor)) {
				return true
			}
		}
		return false
	}
	var refused, passed, punished int
	act := func(id relay.ChatID, by relay.InstanceID, penalty time.Duration) {
		asked := time.Now()
		release, err := g.Acquire(t.Context(), id, Message, forever)
		if err != nil {
			t.Error(err)
			return
		}
		defer release()
		if penalty == 0 && time.Since(asked) > 0 && !near(asked, time.Now()) {
			t.Errorf("%s waited %s for the penalties of others", id, time.Since(asked))
		}
		<-time.After(answer)
		mu.Lock()
		defer mu.Unlock()
		switch left := muted(time.Now()); {
		case left > 0:
			refused++
			g.Refused(id, Message, by, left)
		case penalty > 0:
			punished++
			g.Refused(id, Message, by, penalty)
		default:
			passed++
			g.Passed(Message)
		}
	}
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			for time.Now().Before(end) {
				act(relay.ChatID(fmt.Sprint("wild ", n)), "wild", time.Second+within(time.Minute))
				<-time.After(within(90 * time.Second))
			}
		})
	}
	for n := range 40 {
		wg.Go(func() {
			for time.Now().Before(end) {
				<-time.After(within(150 * time.Second))
				act(relay.ChatID(fmt.Sprint("calm ", n)), relay.InstanceID(fmt.Sprint("of ", n)), 0)
			}
		})
	}
	wg.Wait()
	if passed == 0 || punished == 0 || refused == 0 {
		t.Fatalf("%d passed, %d were punished and %d refused: the simulation shows nothing", passed, punished, refused)
	}
	<-time.After(time.Hour)
	g.Due("sweeper", "", time.Second)
	if len(g.chats) != 0 || len(g.guilty) != 0 {
		t.Errorf("%d idle chats and %d instances are remembered, want none", len(g.chats), len(g.guilty))
	}
}
