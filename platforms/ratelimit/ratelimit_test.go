package ratelimit_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	chat relay.ChatID = "1"
	// forever is more patience than any test needs.
	forever = 24 * time.Hour
)

var rates = ratelimit.Rates{
	Bot:  ratelimit.Rate{Every: 100 * time.Millisecond, Burst: 5},
	Chat: ratelimit.Rate{Every: time.Second, Burst: 2},
}

// pass goes through the limiter and reports how long that took.
func pass(t *testing.T, g *ratelimit.Limiter, ctx context.Context, id relay.ChatID, cost ratelimit.Cost) time.Duration {
	t.Helper()
	start := time.Now()
	release, err := g.Acquire(ctx, id, cost, forever)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	release()
	return time.Since(start)
}

func refused(t *testing.T, err error) *relay.ActionError {
	t.Helper()
	var ae *relay.ActionError
	if !errors.As(err, &ae) {
		t.Fatalf("error is %v, want an ActionError", err)
	}
	if ae.Outcome != relay.NotSent || !strings.Contains(ae.Public, "network") {
		t.Errorf("refusal is %+v, want NotSent and the word network", ae)
	}
	return ae
}

func TestRates(t *testing.T) {
	for name, tc := range map[string]struct {
		chat relay.ChatID
		cost ratelimit.Cost
		want []time.Duration // how long each of a row of actions waits
	}{
		"messages of a chat wait after the burst": {"1", ratelimit.Message, []time.Duration{0, 0, time.Second, time.Second}},
		"signals count for the bot only": {
			"-1", ratelimit.Signal, []time.Duration{0, 0, 0, 0, 0, 100 * time.Millisecond, 100 * time.Millisecond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := ratelimit.New(rates)
				var got []time.Duration
				for range tc.want {
					got = append(got, pass(t, g, t.Context(), tc.chat, tc.cost))
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("waits are %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// TestBusyChatsLeaveRoomForOthers: gateways that run wild in several chats delay nobody else.
func TestBusyChatsLeaveRoomForOthers(t *testing.T) { // invariant 6
	rates := rates
	rates.Chat = ratelimit.Rate{}
	rates.Share = ratelimit.Rate{Every: time.Second, Burst: 2}
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(rates)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		var wild atomic.Int32
		for _, id := range []relay.ChatID{"w1", "w2", "w3"} {
			wg.Go(func() {
				for {
					release, err := g.Acquire(ctx, id, ratelimit.Message, forever)
					if err != nil {
						return
					}
					wild.Add(1)
					release()
				}
			})
		}
		<-time.After(time.Second / 2) // their shares come with the full second, and take a third of it
		for range 60 {
			for range 2 { // within the share, and the half of the burst
				if d := pass(t, g, t.Context(), chat, ratelimit.Message); d != 0 {
					t.Fatalf("waited %s for busy chats", d)
				}
			}
			<-time.After(2 * time.Second)
		}
		if n := wild.Load(); n < 120*9-10 {
			t.Errorf("%d passed of the busy chats in 120 s; want about all but what others took of 10 a second", n)
		}
	})
}

// TestManyChatsDoNotHelp: a gateway that writes a little in each of very many chats delays no other
// instance.
func TestManyChatsDoNotHelp(t *testing.T) { // invariant 6
	rates := rates
	rates.Chat = ratelimit.Rate{}
	rates.Share = ratelimit.Rate{Every: time.Second, Burst: 2}
	rates.Instance = ratelimit.Rate{Every: 500 * time.Millisecond, Burst: 2}
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(rates)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		var wild atomic.Int32
		for n := range 100 {
			wg.Go(func() {
				for {
					release, err := g.Acquire(platforms.For(ctx, "wild"), relay.ChatID("w"+strconv.Itoa(n)), ratelimit.Message, forever)
					if err != nil {
						return
					}
					wild.Add(1)
					release()
				}
			})
		}
		<-time.After(time.Second / 4)
		for range 60 {
			if d := pass(t, g, platforms.For(t.Context(), "calm"), chat, ratelimit.Message); d != 0 {
				t.Fatalf("waited %s for one instance's many chats", d)
			}
			<-time.After(2 * time.Second)
		}
		if n := wild.Load(); n < 120*9 {
			t.Errorf("%d passed of the many chats in 120 s; want about all but what the other took of 10 a second", n)
		}
	})
}

// TestNobodyWaitsForAnotherInstancesShare: in one chat neither.
func TestNobodyWaitsForAnotherInstancesShare(t *testing.T) { // invariant 1
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(ratelimit.Rates{
			Bot: ratelimit.Rate{Every: 100 * time.Millisecond, Burst: 4}, Instance: ratelimit.Rate{Every: time.Second, Burst: 1},
		})
		wild, calm := platforms.For(t.Context(), "wild"), platforms.For(t.Context(), "calm")
		for range 3 {
			pass(t, g, wild, chat, ratelimit.Signal)
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			if d := pass(t, g, wild, chat, ratelimit.Signal); d == 0 {
				t.Error("a third action beyond the share did not wait")
			}
		})
		synctest.Wait()
		if d := pass(t, g, calm, chat, ratelimit.Message); d != 0 {
			t.Errorf("waited %s behind another instance", d)
		}
	})
}

// TestATokenThatAnotherChatTook: in one chat nobody waits for another instance's action that was about to enter, and
// whose token went to a chat of its own.
func TestATokenThatAnotherChatTook(t *testing.T) { // invariant 1
	const tick = 40 * time.Millisecond // everything is a multiple of it, so that much happens at one moment
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(ratelimit.Rates{Bot: ratelimit.Rate{Every: tick, Burst: 5}, Instance: ratelimit.Rate{Every: 3 * tick, Burst: 1}})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for _, id := range []relay.ChatID{chat, "w1", "w2", "w3"} {
			wg.Go(func() {
				for {
					release, err := g.Acquire(platforms.For(ctx, "wild"), id, ratelimit.Signal, forever)
					if err != nil {
						return
					}
					<-time.After(tick)
					release()
				}
			})
		}
		for range 2000 {
			<-time.After(13 * tick)
			if d := pass(t, g, platforms.For(t.Context(), "calm"), chat, ratelimit.Message); d > 3*tick {
				t.Fatalf("waited %s; want no more than one action of the other's and two of the bot's turns", d)
			}
		}
	})
}

func TestZeroLimitsOnlyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(ratelimit.Rates{})
		for range 1000 {
			if d := pass(t, g, t.Context(), chat, ratelimit.Message); d != 0 {
				t.Fatalf("waited %v, want nothing", d)
			}
		}
	})
}

func TestOneActionPerChatInOrderOfArrival(t *testing.T) { // invariant 1
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(ratelimit.Rates{})
		var order []int
		inside := 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				release, err := g.Acquire(t.Context(), chat, ratelimit.Message, forever)
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				defer release()
				mu.Lock()
				order = append(order, i)
				inside++
				if inside > 1 {
					t.Errorf("%d actions are inside at once", inside)
				}
				mu.Unlock()
				<-time.After(time.Second) // the network takes its time
				mu.Lock()
				inside--
				mu.Unlock()
			})
			synctest.Wait() // the next one comes later
		}
		if d := pass(t, g, t.Context(), "2", ratelimit.Message); d != 0 {
			t.Errorf("another chat waited %v", d)
		}
		wg.Wait()
		if !slices.IsSorted(order) || len(order) != 10 {
			t.Errorf("entered in order %v", order)
		}
	})
}

func TestPenalty(t *testing.T) { // invariant 3
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(rates)
		g.Penalise(chat, 7*time.Second)
		if !g.Closed(chat) {
			t.Error("the punished chat is open")
		}
		if g.Closed("2") {
			t.Error("another chat is closed")
		}
		g.Penalise(chat, time.Second) // does not shorten the first
		if d := pass(t, g, t.Context(), chat, ratelimit.Signal); d != 7*time.Second {
			t.Errorf("a signal waited %v, want 7s", d)
		}
		if g.Closed(chat) {
			t.Error("the chat is closed after its penalty")
		}
	})
}

func TestPenaltyReachesWhoAlreadyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(rates)
		pass(t, g, t.Context(), chat, ratelimit.Message)
		pass(t, g, t.Context(), chat, ratelimit.Message)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := g.Acquire(ctx, chat, ratelimit.Message, forever)
			failed <- err
		}()
		synctest.Wait()
		start := time.Now()
		g.Penalise(chat, time.Minute)
		ae := refused(t, <-failed)
		if d := time.Since(start); d != 0 {
			t.Errorf("the answer took %v, want it at once", d)
		}
		if ae.RetryAfter != time.Minute {
			t.Errorf("retry after %v, want 1m", ae.RetryAfter)
		}
	})
}

func TestRefusedAtOnceWhenItCannotOpenInTime(t *testing.T) { // invariant 4
	for name, tc := range map[string]struct {
		patience time.Duration
		deadline time.Duration
		penalty  time.Duration
	}{
		"behind the deadline":      {forever, 25 * time.Second, 60 * time.Second},
		"behind the patience":      {2 * time.Second, 25 * time.Second, 10 * time.Second},
		"no patience at all":       {0, 25 * time.Second, time.Second},
		"patience below zero":      {-time.Second, 25 * time.Second, time.Second},
		"just behind the patience": {2 * time.Second, 25 * time.Second, 2*time.Second + 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := ratelimit.New(rates)
				g.Penalise(chat, tc.penalty)
				ctx, cancel := context.WithTimeout(t.Context(), tc.deadline)
				defer cancel()
				start := time.Now()
				_, err := g.Acquire(ctx, chat, ratelimit.Message, tc.patience)
				ae := refused(t, err)
				if d := time.Since(start); d != 0 {
					t.Errorf("the answer took %v, want it at once", d)
				}
				if ae.RetryAfter != tc.penalty {
					t.Errorf("retry after %v, want %v", ae.RetryAfter, tc.penalty)
				}
				if err := g.WaitOpen(ctx, chat, tc.patience); err == nil {
					t.Error("WaitOpen says open during a penalty")
				}
			})
		})
	}
}

func TestRefusedForTheQueueAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(rates)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		for range 6 { // two at once, then one a second
			wg.Go(func() { pass(t, g, ctx, chat, ratelimit.Message) })
			synctest.Wait()
		}
		start := time.Now()
		_, err := g.Acquire(ctx, chat, ratelimit.Message, 3*time.Second)
		if ae := refused(t, err); ae.RetryAfter != 5*time.Second {
			t.Errorf("retry after %v, want 5s: four wait ahead", ae.RetryAfter)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("the answer took %v, want it at once", d)
		}
		wg.Wait()
	})
}

func TestCancelledWaiterTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(rates)
		pass(t, g, t.Context(), chat, ratelimit.Message)
		pass(t, g, t.Context(), chat, ratelimit.Message)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := g.Acquire(ctx, chat, ratelimit.Message, forever)
			failed <- err
		}()
		synctest.Wait()
		cancel()
		err := <-failed
		refused(t, err)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v, want it to say canceled", err)
		}
		if d := pass(t, g, t.Context(), chat, ratelimit.Message); d != time.Second {
			t.Errorf("the next waited %v, want 1s: the cancelled one took nothing", d)
		}
		if _, err := g.Acquire(ctx, "2", ratelimit.Message, forever); err == nil {
			t.Error("a cancelled context got through an open limiter")
		}
	})
}

func TestWaitOpenTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(rates)
		for range 5 {
			if err := g.WaitOpen(t.Context(), chat, 0); err != nil {
				t.Fatalf("WaitOpen: %v", err)
			}
		}
		g.Penalise(chat, 3*time.Second)
		start := time.Now()
		if err := g.WaitOpen(t.Context(), chat, forever); err != nil {
			t.Fatalf("WaitOpen: %v", err)
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("opened after %v, want 3s", d)
		}
		release, err := g.Acquire(t.Context(), chat, ratelimit.Message, 0)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		if err := g.WaitOpen(t.Context(), chat, time.Second); err == nil {
			t.Error("WaitOpen says open while an action is inside")
		}
		release()
		release() // a second time does nothing
	})
}

func TestNextKeepsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(rates)
		release, err := g.Acquire(t.Context(), chat, ratelimit.Message, 0)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		entered := make(chan time.Duration, 1)
		start := time.Now()
		go func() {
			pass(t, g, t.Context(), chat, ratelimit.Message)
			entered <- time.Since(start)
		}()
		synctest.Wait()
		for range 3 { // the burst's second, then one a second
			if err := g.Next(t.Context(), chat, ratelimit.Message, forever); err != nil {
				t.Fatalf("Next: %v", err)
			}
		}
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("three more parts took %v, want 2s", d)
		}
		g.Penalise(chat, time.Minute)
		refused(t, g.Next(t.Context(), chat, ratelimit.Message, time.Second))
		release()
		if d := <-entered; d != 62*time.Second {
			t.Errorf("the next action entered after %v, want 62s", d)
		}
	})
}

func TestDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(rates)
		const every = 4 * time.Second
		steps := []struct {
			after time.Duration
			chat  relay.ChatID
			what  string
			want  bool
		}{
			{0, "1", "typing", true},
			{2 * time.Second, "1", "typing", false},
			{0, "1", "other", true},
			{0, "2", "typing", true},
			{2 * time.Second, "1", "typing", true},
			{3 * time.Minute, "1", "typing", true},
		}
		for i, s := range steps {
			<-time.After(s.after)
			if got := g.Due(s.chat, s.what, every); got != s.want {
				t.Errorf("step %d: Due is %v, want %v", i, got, s.want)
			}
		}
	})
}

// TestALongMessageGivesWay: between its parts other instances' messages enter, and its own go on behind
// them; one instance's own messages keep their order.
func TestALongMessageGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(ratelimit.Rates{Bot: ratelimit.Rate{Every: time.Millisecond, Burst: 100}})
		kids, home := platforms.For(t.Context(), "kids"), platforms.For(t.Context(), "home")
		var mu sync.Mutex
		var order []string
		did := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		long, err := g.Acquire(kids, chat, ratelimit.Message, forever)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		say := func(ctx context.Context, what string) {
			wg.Go(func() {
				release, err := g.Acquire(ctx, chat, ratelimit.Message, forever)
				if err != nil {
					t.Error(err)
					return
				}
				did(what)
				time.Sleep(time.Second)
				release()
			})
			synctest.Wait()
		}
		say(kids, "kids' next")
		for part := range 4 {
			if part == 2 {
				say(home, "home")
			}
			if part > 0 {
				if err := g.Next(kids, chat, ratelimit.Message, forever); err != nil {
					t.Fatal(err)
				}
			}
			did("part " + strconv.Itoa(part))
			time.Sleep(time.Second)
		}
		long()
		long() // a second time is nothing
		wg.Wait()
		want := []string{"part 0", "part 1", "kids' next", "home", "part 2", "part 3"}
		if !slices.Equal(order, want) && !slices.Equal(order, []string{"part 0", "part 1", "home", "part 2", "part 3", "kids' next"}) {
			t.Errorf("order is %q, want %q", order, want)
		}
	})
}

// TestPatience: when it has ended nobody waits any more, and what can enter at once does.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ratelimit.New(rates)
		patience, lose := context.WithCancel(t.Context())
		ctx := platforms.Patient(t.Context(), patience)
		g.Penalise(chat, time.Minute)
		start := time.Now()
		time.AfterFunc(2*time.Second, lose)
		_, err := g.Acquire(ctx, chat, ratelimit.Message, forever)
		if ae := refused(t, err); ae.RetryAfter != 58*time.Second || time.Since(start) != 2*time.Second {
			t.Errorf("%+v after %v", ae, time.Since(start))
		}
		refused(t, g.WaitOpen(ctx, chat, forever))
		if d := pass(t, g, ctx, "2", ratelimit.Message); d != 0 || time.Since(start) != 2*time.Second {
			t.Errorf("another chat's waited %v", d)
		}
		if d := pass(t, g, platforms.Patient(ctx, ctx), chat, ratelimit.Message); d != 58*time.Second {
			t.Errorf("with patience it waited %v", d)
		}
	})
}
