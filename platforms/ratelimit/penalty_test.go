package ratelimit_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

// sent is an action of an instance that the network refused for d, or carried out when d is 0.
func sent(t *testing.T, g *ratelimit.Limiter, id relay.ChatID, cost ratelimit.Cost, by relay.InstanceID, d time.Duration) {
	t.Helper()
	release, err := g.Acquire(t.Context(), id, cost, forever)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	defer release()
	if d == 0 {
		g.Passed(cost)
	} else {
		g.Refused(id, cost, by, d)
	}
}

// waits is how long an action that is not carried out waits for the limiter of a chat.
func waits(t *testing.T, g *ratelimit.Limiter, id relay.ChatID) time.Duration {
	t.Helper()
	return pass(t, g, t.Context(), id, ratelimit.Message)
}

// TestPunishedChatsOfOneInstanceCloseNoOther: two punished chats of one tenant
// silenced everybody for as long as the shorter penalty lasted, and could do so for ever.
func TestPunishedChatsOfOneInstanceCloseNoOther(t *testing.T) { // invariant 7
	for name, sizes := range map[string]struct{ chats, quiet int }{
		"two at once":  {2, 0},
		"many at once": {30, 0},
		"each silent for long before, as in groups with slow mode": {30, 120},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := ratelimit.New(rates)
				for round := range 5 {
					for n := range sizes.chats {
						if sizes.quiet > 0 && round == 0 {
							sent(t, g, relay.ChatID(strconv.Itoa(n)), ratelimit.Message, "wild", 0)
						}
					}
					<-time.After(time.Duration(sizes.quiet) * time.Second)
					for n := range sizes.chats {
						id := relay.ChatID(strconv.Itoa(n))
						sent(t, g, id, ratelimit.Message, "wild", 35*time.Second)
						if !g.Closed(id) {
							t.Fatal("a punished chat is open")
						}
					}
					<-time.After(time.Second) // the bot's own rate
					if d := waits(t, g, relay.ChatID(fmt.Sprintf("ann %d", round))); d != 0 {
						t.Fatalf("round %d: a chat of another instance waited %s", round, d)
					}
					<-time.After(40 * time.Second)
				}
			})
		})
	}
}

// TestWhoseRefusalMeansTheBot: what happened before an instance's action in a chat is refused for 30 s,
// and how long a further chat then waits.
func TestWhoseRefusalMeansTheBot(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(t *testing.T, g *ratelimit.Limiter)
		after  time.Duration // between before and the refusal
		want   time.Duration
	}{
		"nobody else is punished": {func(*testing.T, *ratelimit.Limiter) {}, 0, 0},
		"one other is": {func(t *testing.T, g *ratelimit.Limiter) {
			sent(t, g, "1", ratelimit.Message, "wild", 35*time.Second)
		}, 0, 0},
		"two others are": {func(t *testing.T, g *ratelimit.Limiter) {
			sent(t, g, "1", ratelimit.Message, "wild", 35*time.Second)
			sent(t, g, "2", ratelimit.Message, "wild", 35*time.Second)
		}, 0, 5 * time.Second},
		"they were": {func(t *testing.T, g *ratelimit.Limiter) {
			sent(t, g, "1", ratelimit.Message, "wild", 35*time.Second)
			sent(t, g, "2", ratelimit.Message, "wild", 35*time.Second)
		}, 36 * time.Second, 0},
		"they are, but somebody's action has passed": {func(t *testing.T, g *ratelimit.Limiter) {
			sent(t, g, "1", ratelimit.Message, "wild", 35*time.Second)
			sent(t, g, "2", ratelimit.Message, "wild", 35*time.Second)
			sent(t, g, "bob", ratelimit.Message, "bob", 0)
		}, 0, 0},
		"they are, and a signal has passed": {func(t *testing.T, g *ratelimit.Limiter) {
			sent(t, g, "1", ratelimit.Message, "wild", 35*time.Second)
			sent(t, g, "2", ratelimit.Message, "wild", 35*time.Second)
			sent(t, g, "bob", ratelimit.Signal, "bob", 0)
		}, 0, 5 * time.Second},
		"they are, for signals": {func(t *testing.T, g *ratelimit.Limiter) {
			sent(t, g, "1", ratelimit.Signal, "wild", 35*time.Second)
			sent(t, g, "2", ratelimit.Signal, "wild", 35*time.Second)
		}, 0, 0},
		"they are, and its own instance has another": {func(t *testing.T, g *ratelimit.Limiter) {
			sent(t, g, "1", ratelimit.Message, "wild", 35*time.Second)
			sent(t, g, "2", ratelimit.Message, "ann", 35*time.Second)
		}, 0, 0},
		"they are, and it has been busy itself": {func(t *testing.T, g *ratelimit.Limiter) {
			sent(t, g, "ann", ratelimit.Message, "ann", 0)
			sent(t, g, "1", ratelimit.Message, "wild", 35*time.Second)
			sent(t, g, "2", ratelimit.Message, "wild", 35*time.Second)
		}, 20 * time.Second, 0},
		"they are, and it was punished itself lately": {func(t *testing.T, g *ratelimit.Limiter) {
			sent(t, g, "ann", ratelimit.Message, "bob", 70*time.Second)
			<-time.After(80 * time.Second)
			sent(t, g, "1", ratelimit.Message, "wild", 35*time.Second)
			sent(t, g, "2", ratelimit.Message, "wild", 35*time.Second)
		}, 0, 0},
		"they are, and its own penalties are long over": {func(t *testing.T, g *ratelimit.Limiter) {
			sent(t, g, "ann", ratelimit.Message, "ann", 10*time.Second)
			<-time.After(80 * time.Second)
			sent(t, g, "1", ratelimit.Message, "wild", 35*time.Second)
			sent(t, g, "2", ratelimit.Message, "wild", 35*time.Second)
		}, 0, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := ratelimit.New(ratelimit.Rates{})
				tc.before(t, g)
				<-time.After(tc.after)
				sent(t, g, "ann", ratelimit.Message, "ann", 30*time.Second)
				if !g.Closed("ann") {
					t.Error("the chat itself is open")
				}
				if d := waits(t, g, "bob"); d != tc.want {
					t.Errorf("another chat waited %s, want %s", d, tc.want)
				}
			})
		})
	}
}

// TestOneProbeDecides: the network really means the whole bot, for 35 s. It is asked by one action
// at a time, and all go on as soon as one has passed.
func TestOneProbeDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(ratelimit.Rates{})
		over := time.Now().Add(35 * time.Second)
		var mu sync.Mutex
		var refused, inside, most int
		var passed []time.Time
		ask := func(id relay.ChatID) {
			for {
				release, err := g.Acquire(t.Context(), id, ratelimit.Message, forever)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				inside++
				most = max(most, inside)
				mu.Unlock()
				<-time.After(100 * time.Millisecond) // the network's answer
				mu.Lock()
				inside--
				now := time.Now()
				left := over.Sub(now)
				if left > 0 {
					refused++
				} else {
					passed = append(passed, now)
				}
				mu.Unlock()
				if left > 0 {
					g.Refused(id, ratelimit.Message, relay.InstanceID(id), left)
					release()
					continue
				}
				g.Passed(ratelimit.Message)
				release()
				return
			}
		}
		var wg sync.WaitGroup
		for n := range 3 { // the third is refused while two are punished
			wg.Go(func() { ask(relay.ChatID(strconv.Itoa(n))) })
			<-time.After(200 * time.Millisecond)
		}
		for n := range 100 {
			wg.Go(func() { ask(relay.ChatID(strconv.Itoa(10 + n))) })
			<-time.After(100 * time.Millisecond)
		}
		<-time.After(time.Until(over) - time.Millisecond)
		mu.Lock()
		if most != 1 {
			t.Errorf("%d actions at once tried whether the bot is closed, want 1", most)
		}
		mu.Unlock()
		wg.Wait()
		if refused > 3+7 {
			t.Errorf("%d actions were refused, want the first three and one in five seconds", refused)
		}
		if n := len(passed); n != 103 || passed[n-1].Sub(over) > 6*time.Second {
			t.Errorf("%d passed, the last %s after the penalty's end", n, passed[n-1].Sub(over))
		}
	})
}

// TestProbeWithoutAnAnswer holds nobody up for long, and one that is refused for its own sake does not.
func TestProbeWithoutAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(g *ratelimit.Limiter)
		want   time.Duration
	}{
		"none":                         {func(*ratelimit.Limiter) {}, 2 * time.Second},
		"it passed":                    {func(g *ratelimit.Limiter) { g.Passed(ratelimit.Message) }, 0},
		"a guilty one's, refused":      {func(g *ratelimit.Limiter) { g.Refused("3", ratelimit.Message, "wild", time.Minute) }, 0},
		"an innocent one's, refused":   {func(g *ratelimit.Limiter) { g.Refused("3", ratelimit.Message, "bob", time.Minute) }, 5 * time.Second},
		"refused, for a moment":        {func(g *ratelimit.Limiter) { g.Refused("3", ratelimit.Message, "bob", time.Second) }, time.Second},
		"a signal's, which passed":     {func(g *ratelimit.Limiter) { g.Passed(ratelimit.Signal) }, 2 * time.Second},
		"another's, refused, and none": {func(g *ratelimit.Limiter) { g.Refused("9", ratelimit.Message, "wild", time.Second) }, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := ratelimit.New(ratelimit.Rates{})
				sent(t, g, "1", ratelimit.Message, "wild", time.Minute)
				sent(t, g, "2", ratelimit.Message, "wild", time.Minute)
				sent(t, g, "ann", ratelimit.Message, "ann", time.Minute)
				if d := waits(t, g, "3"); d != 5*time.Second {
					t.Fatalf("the probe waited %s, want 5s", d)
				}
				tc.answer(g)
				if d := waits(t, g, "4"); d != tc.want {
					t.Errorf("the next waited %s, want %s", d, tc.want)
				}
			})
		})
	}
}

// TestWhatAPenaltyForbids: look-ups and what people see are counted apart.
func TestWhatAPenaltyForbids(t *testing.T) {
	for name, tc := range map[string]struct {
		cost ratelimit.Cost
		want [3]bool // messages, signals, look-ups
	}{
		"a message's":   {ratelimit.Message, [3]bool{true, true, false}},
		"a signal's":    {ratelimit.Signal, [3]bool{false, true, false}},
		"a look-up's":   {ratelimit.Look, [3]bool{false, false, true}},
		"the network's": {-1, [3]bool{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := ratelimit.New(ratelimit.Rates{})
				if tc.cost < 0 {
					g.Penalise(chat, time.Minute)
				} else {
					sent(t, g, chat, tc.cost, "ann", time.Minute)
				}
				var got [3]bool
				for k := range got {
					err := g.Next(t.Context(), chat, ratelimit.Cost(k), 0)
					got[k] = err != nil
				}
				if got != tc.want {
					t.Errorf("forbids %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(rates)
		look := func(id relay.ChatID, left time.Duration, bot bool) {
			t.Helper()
			until, whole := g.Ask(id)
			if left == 0 && !until.IsZero() || left > 0 && time.Until(until) != left || whole != bot {
				t.Errorf("Ask(%s) = in %s, bot %t; want in %s, %t", id, time.Until(until), whole, left, bot)
			}
		}
		sent(t, g, chat, ratelimit.Message, "ann", time.Minute)
		for range 20 { // no rate, no turn, and nothing of the penalty for messages
			look(chat, 0, false)
		}
		for n, id := range []relay.ChatID{"5", "6", "7"} {
			look(id, 0, false)
			g.Refused(id, ratelimit.Look, "", 30*time.Second)
			look(id, []time.Duration{30 * time.Second, 30 * time.Second, 5 * time.Second}[n], n == 2)
		}
		look("8", 5*time.Second, true)
		if d := waits(t, g, "8"); d != 0 {
			t.Errorf("a message waited %s for look-ups", d)
		}
		<-time.After(5 * time.Second)
		look("8", 0, false)
		look("9", 2*time.Second, true) // 8 is the probe
		g.Passed(ratelimit.Look)
		look("9", 0, false)
		look("5", 25*time.Second, false)
	})
}

func TestNetworkThatTellsWhenTheBotIsMeant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(ratelimit.Rates{})
		g.Penalise("1", 10*time.Second)
		g.Penalise("2", 30*time.Second)
		if g.Closed("3") || !g.Closed("1") {
			t.Error("two punished chats are taken for the bot, or none is punished")
		}
		g.PenaliseBot(5 * time.Second)
		g.PenaliseBot(time.Second) // does not shorten the first
		if _, bot := g.Ask("3"); !bot {
			t.Error("look-ups pass a closed bot")
		}
		if d := waits(t, g, "3"); d != 5*time.Second {
			t.Errorf("another chat waited %v, want 5s", d)
		}
	})
}
