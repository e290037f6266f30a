package background

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
)

// withRunners runs f with a queue that runs, in virtual time.
func withRunners(t *testing.T, f func(t *testing.T, q *Queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := New(new(count.Totals), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { q.Run(ctx) })
		f(t, q)
		cancel()
		wg.Wait()
	})
}

func TestTasksAreTriedAgain(t *testing.T) {
	limit := &relay.ActionError{Outcome: relay.NotSent, Public: "network: rate limited", RetryAfter: time.Minute}
	unclear := &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}
	for name, tc := range map[string]struct {
		e      Task
		err    error
		fails  int           // how often, before it succeeds
		tried  int           // how often in an hour
		within time.Duration // the last try is made
		left   uint64        // given up
	}{
		"all is well":             {Task{}, nil, 0, 1, 0, 0},
		"a limit":                 {Task{}, limit, 3, 4, 3 * time.Minute, 0},
		"out of reach":            {Task{}, &relay.ActionError{Outcome: relay.NotSent, Public: "network: Discord cannot be reached"}, 4, 5, 15 * time.Second, 0},
		"for ever":                {Task{}, limit, 1 << 30, 15, 14 * time.Minute, 1},
		"refused":                 {Task{}, &relay.ActionError{Outcome: relay.NotSent, Public: "403 Forbidden"}, 1, 1, 0, 1},
		"unclear":                 {Task{}, unclear, 1, 1, 0, 1},
		"unclear, and harmless":   {Task{Harmless: true}, unclear, 1, 2, time.Second, 0},
		"an error of the store's": {Task{Harmless: true}, errors.New("?"), 2, 3, 3 * time.Second, 0},
		"of no use any more":      {Task{Harmless: true}, &relay.ActionError{Outcome: relay.NotSent, Public: "network", Err: platforms.ErrCapabilityGone}, 1, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			withRunners(t, func(t *testing.T, q *Queue) {
				start, tried, last := time.Now(), 0, time.Duration(0)
				tc.e.Until = start.Add(Life)
				tc.e.Do = func(context.Context) error {
					tried++
					last = time.Since(start)
					if tried <= tc.fails {
						return tc.err
					}
					return nil
				}
				tc.e.GivenUp = count.AnswerDropped
				q.Put(tc.e)
				time.Sleep(time.Hour)
				synctest.Wait()
				if tried != tc.tried || last != tc.within || q.counters.Snapshot()["answer_dropped"] != tc.left {
					t.Errorf("tried %d times, last after %v, %d left; want %d, %v, %d", tried, last, q.counters.Snapshot()["answer_dropped"], tc.tried, tc.within, tc.left)
				}
			})
		})
	}
}

// None is dropped, however many come at once and however slow the network is; who waits to read
// something is served first.
func TestTasksAreNotDropped(t *testing.T) {
	withRunners(t, func(t *testing.T, q *Queue) {
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
		until := time.Now().Add(Life)
		for n := range many {
			q.Put(Task{GivenUp: count.AnswerDropped, Do: do(fmt.Sprint(n)), Until: until})
		}
		synctest.Wait()
		q.Put(Task{GivenUp: count.AnswerDropped, Do: do("urgent"), Until: until, Urgent: true})
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

func TestATasksTimeIsBounded(t *testing.T) {
	withRunners(t, func(t *testing.T, q *Queue) {
		start := time.Now()
		q.Put(Task{GivenUp: count.AnswerDropped, Until: start.Add(Life), Do: func(ctx context.Context) error {
			<-ctx.Done()
			if d := time.Since(start); d != within {
				t.Errorf("its context ended after %v", d)
			}
			return ctx.Err()
		}})
		time.Sleep(time.Hour)
		if q.counters.Snapshot()["answer_dropped"] != 1 {
			t.Error("it is not counted as given up")
		}
	})
}

// TestAStopWaitsForNoTaskForEver: nor for any when it is to be quick.
func TestAStopWaitsForNoTaskForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(new(count.Totals), slog.New(slog.DiscardHandler))
		q.Put(Task{GivenUp: count.AnswerDropped, Until: time.Now().Add(Life), Do: func(context.Context) error { return nil }}) // nobody runs it
		began := time.Now()
		q.Farewell(t.Context())
		if took := time.Since(began); took != farewellWithin {
			t.Errorf("took %v, want %v", took, farewellWithin)
		}
		quick, cancel := context.WithCancel(t.Context())
		cancel()
		began = time.Now()
		q.Farewell(quick)
		if took := time.Since(began); took != 0 {
			t.Errorf("in a hurry it took %v", took)
		}
	})
}
