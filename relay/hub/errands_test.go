package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
)

// withRunners runs f with a hub whose runners work, in virtual time.
func withRunners(t *testing.T, f func(t *testing.T, h *Hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := New(nil, nil, nil, nil, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range runners {
			wg.Go(func() { h.errandLoop(ctx) })
		}
		f(t, h)
		cancel()
		wg.Wait()
	})
}

func TestErrandsAreTriedAgain(t *testing.T) {
	limit := &relay.ActionError{Outcome: relay.NotSent, Public: "network: rate limited", RetryAfter: time.Minute}
	unclear := &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}
	for name, tc := range map[string]struct {
		e      errand
		err    error
		fails  int           // how often, before it succeeds
		tried  int           // how often in an hour
		within time.Duration // the last try is made
		left   uint64        // given up
	}{
		"all is well":             {errand{}, nil, 0, 1, 0, 0},
		"a limit":                 {errand{}, limit, 3, 4, 3 * time.Minute, 0},
		"out of reach":            {errand{}, &relay.ActionError{Outcome: relay.NotSent, Public: "network: Discord cannot be reached"}, 4, 5, 15 * time.Second, 0},
		"for ever":                {errand{}, limit, 1 << 30, 15, 14 * time.Minute, 1},
		"refused":                 {errand{}, &relay.ActionError{Outcome: relay.NotSent, Public: "403 Forbidden"}, 1, 1, 0, 1},
		"unclear":                 {errand{}, unclear, 1, 1, 0, 1},
		"unclear, and harmless":   {errand{harmless: true}, unclear, 1, 2, time.Second, 0},
		"an error of the store's": {errand{harmless: true}, errors.New("?"), 2, 3, 3 * time.Second, 0},
		"of no use any more":      {errand{harmless: true}, &relay.ActionError{Outcome: relay.NotSent, Public: "network", Err: platforms.ErrCapabilityGone}, 1, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			withRunners(t, func(t *testing.T, h *Hub) {
				start, tried, last := time.Now(), 0, time.Duration(0)
				tc.e.until = start.Add(errandLife)
				tc.e.do = func(context.Context) error {
					tried++
					last = time.Since(start)
					if tried <= tc.fails {
						return tc.err
					}
					return nil
				}
				tc.e.givenUp = count.AnswerDropped
				h.errands.put(tc.e)
				time.Sleep(time.Hour)
				synctest.Wait()
				if tried != tc.tried || last != tc.within || h.Counters()["answer_dropped"] != tc.left {
					t.Errorf("tried %d times, last after %v, %d left; want %d, %v, %d", tried, last, h.Counters()["answer_dropped"], tc.tried, tc.within, tc.left)
				}
			})
		})
	}
}

// None is dropped, however many come at once and however slow the network is; who waits to read
// something is served first.
func TestErrandsAreNotDropped(t *testing.T) {
	withRunners(t, func(t *testing.T, h *Hub) {
		var mu sync.Mutex
		var did []string
		do := func(what string) func(context.Context) error {
			return func(context.Context) error {
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				did = append(did, what)
				return nil
			}
		}
		const many = 5000
		until := time.Now().Add(errandLife)
		for n := range many {
			h.errands.put(errand{givenUp: count.AnswerDropped, do: do(fmt.Sprint(n)), until: until})
		}
		synctest.Wait()
		h.errands.put(errand{givenUp: count.AnswerDropped, do: do("urgent"), until: until, urgent: true})
		start := time.Now()
		time.Sleep(250 * time.Millisecond)
		mu.Lock()
		if !slices.Contains(did, "urgent") {
			t.Errorf("after %v the urgent one waits still", time.Since(start))
		}
		mu.Unlock()
		time.Sleep(many / runners * 150 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if len(did) != many+1 {
			t.Errorf("%d of %d were done", len(did), many+1)
		}
	})
}

func TestAnErrandsTimeIsBounded(t *testing.T) {
	withRunners(t, func(t *testing.T, h *Hub) {
		start := time.Now()
		h.errands.put(errand{givenUp: count.AnswerDropped, until: start.Add(errandLife), do: func(ctx context.Context) error {
			<-ctx.Done()
			if d := time.Since(start); d != errandWithin {
				t.Errorf("its context ended after %v", d)
			}
			return ctx.Err()
		}})
		time.Sleep(time.Hour)
		if h.Counters()["answer_dropped"] != 1 {
			t.Error("it is not counted as given up")
		}
	})
}

// TestAStopLeavesAnswersToTheNextProcess: what nobody has answered stays, for whoever answers after the restart.
func TestAStopLeavesAnswersToTheNextProcess(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	g := r.dial("home")
	r.command("ann", "i1", "/ask", "tok1", true)
	r.command("ann", "i2", "/ask", "tok2", true)
	g.inbound()
	if res := g.do(relay.Request{Action: relay.Send{Chat: "@ann", Content: "yes", ReplyTo: "i1"}}); res.Err != nil {
		t.Fatal(res.Err)
	}
	r.hub.Farewell(t.Context())
	if want := []string{"respond tok1 first=true: yes"}; !slices.Equal(p.log(), want) || !r.holds("home", "i2") {
		t.Errorf("the platform did %q, want %q, and holds i2: %v", p.log(), want, r.holds("home", "i2"))
	}
}

// TestAStopWaitsForNoErrandForEver: nor for any when it is to be quick.
func TestAStopWaitsForNoErrandForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(nil, nil, nil, nil, Options{})
		h.errands.put(errand{givenUp: count.AnswerDropped, until: time.Now().Add(errandLife), do: func(context.Context) error { return nil }}) // nobody runs it
		began := time.Now()
		h.Farewell(t.Context())
		if took := time.Since(began); took != farewellWithin {
			t.Errorf("took %v, want %v", took, farewellWithin)
		}
		quick, cancel := context.WithCancel(t.Context())
		cancel()
		began = time.Now()
		h.Farewell(quick)
		if took := time.Since(began); took != 0 {
			t.Errorf("in a hurry it took %v", took)
		}
	})
}
