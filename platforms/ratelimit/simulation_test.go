package ratelimit

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// forever is more patience than any test needs.
const forever = 24 * time.Hour

// passage is one action that got through.
type passage struct {
	chat relay.ChatID
	cost Cost
	at   time.Time
}

// TestSimulation lets many callers of several chats at the limiter, punishes chats at random, and
// checks invariants 1 to 5 on what came through.
func TestSimulation(t *testing.T) {
	rates := Rates{
		Bot:   Rate{Every: 50 * time.Millisecond, Burst: 4},
		Chat:  Rate{Every: time.Second, Burst: 3},
		Share: Rate{Every: 2 * time.Second, Burst: 2},
	}
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, rates, seed) })
		})
	}
}

func simulate(t *testing.T, rates Rates, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	g := New(rates)
	chats := []relay.ChatID{"1", "2", "3", "-4", "-5"}
	var (
		mu       sync.Mutex
		passed   []passage
		inside   = make(map[relay.ChatID]bool)
		silent   = make(map[relay.ChatID]time.Time)
		refusals int
		wg       sync.WaitGroup
	)
	enter := func(p passage) {
		mu.Lock()
		defer mu.Unlock()
		if until := silent[p.chat]; p.at.Before(until) {
			t.Errorf("%v passed %v before its penalty ends", p.chat, until.Sub(p.at))
		}
		passed = append(passed, p)
	}
	for range 300 {
		chat, cost := chats[rnd.IntN(len(chats))], Cost(rnd.IntN(2))
		timeout := time.Duration(rnd.IntN(30)) * time.Second
		hold := time.Duration(rnd.IntN(2000)) * time.Millisecond
		more := rnd.IntN(3)
		punish := time.Duration(0)
		if rnd.IntN(10) == 0 {
			punish = time.Duration(1+rnd.IntN(20)) * time.Second
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			start := time.Now()
			release, err := g.Acquire(ctx, chat, cost, forever)
			if time.Since(start) > timeout {
				t.Errorf("an answer came %v after the deadline", time.Since(start)-timeout)
			}
			if err != nil {
				mu.Lock()
				refusals++
				mu.Unlock()
				return
			}
			enter(passage{chat, cost, time.Now()})
			mu.Lock()
			if inside[chat] {
				t.Errorf("two actions of %v at once", chat)
			}
			inside[chat] = true
			mu.Unlock()
			for range more {
				if g.Next(ctx, chat, cost, forever) == nil {
					enter(passage{chat, cost, time.Now()})
				}
			}
			<-time.After(hold)
			if punish > 0 {
				mu.Lock()
				if until := time.Now().Add(punish); until.After(silent[chat]) {
					silent[chat] = until
				}
				mu.Unlock()
				g.Penalise(chat, punish)
			}
			mu.Lock()
			inside[chat] = false
			mu.Unlock()
			release()
		})
		<-time.After(time.Duration(rnd.IntN(500)) * time.Millisecond)
	}
	wg.Wait()
	if len(passed) == 0 || refusals == 0 {
		t.Fatalf("%d passed, %d refused: the simulation shows nothing", len(passed), refusals)
	}

	obeys := func(name string, r Rate, counts func(passage) bool) {
		var at []time.Time
		for _, p := range passed {
			if counts(p) {
				at = append(at, p.at)
			}
		}
		for i := range at {
			for j := i; j < len(at); j++ {
				window := at[j].Sub(at[i])
				if n, most := j-i+1, r.Burst+int(window/r.Every); n > most {
					t.Fatalf("%s: %d passed within %v, want at most %d", name, n, window, most)
				}
			}
		}
	}
	obeys("bot", rates.Bot, func(passage) bool { return true })
	for _, chat := range chats {
		own := func(p passage) bool { return p.chat == chat && p.cost == Message }
		obeys("chat "+string(chat), rates.Chat, own)
	}
	<-time.After(time.Hour)
	g.Due("sweeper", "", time.Second)
	if n := len(g.chats); n != 0 {
		t.Errorf("%d idle chats are remembered, want none", n)
	}
}
