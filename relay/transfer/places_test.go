package transfer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPlaces: so many run, and no more; who waits too long, or too many of one, get none; and the first gets the next.
func TestPlaces(t *testing.T) { // invariant 3
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(3, 2)
		var mu sync.Mutex
		var order []string
		leavers := make(map[string]func())
		wait := func(who string, n int, within time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			name := fmt.Sprint(who, n)
			go func() {
				defer cancel()
				leave, ok := p.enter(ctx, who)
				mu.Lock()
				defer mu.Unlock()
				if !ok {
					name += " gave up"
				}
				order = append(order, name)
				leavers[name] = leave
			}()
			synctest.Wait()
		}
		leave := func(name string) {
			mu.Lock()
			l := leavers[name]
			mu.Unlock()
			l()
			l() // once more it does nothing
			synctest.Wait()
		}
		for n := range 3 {
			wait("a", n, time.Minute) // a2 waits for its own
		}
		wait("b", 0, time.Minute)
		wait("b", 1, 5*time.Second)
		wait("c", 0, time.Minute)
		time.Sleep(6 * time.Second)
		leave("b0") // a has its two: c is next
		leave("a0")
		leave("a1")
		leave("c0")
		leave("a2")
		if want := []string{"a0", "a1", "b0", "b1 gave up", "c0", "a2"}; !slices.Equal(order, want) {
			t.Errorf("in came %q, want %q", order, want)
		}
		if p.held != 0 || len(p.by) != 0 || len(p.waiting) != 0 {
			t.Errorf("at the end %d are held, by %v, and %d wait", p.held, p.by, len(p.waiting))
		}
	})
}

// TestOneCallerDoesNotQueueForEver: those that wait are bounded too, of each caller.
func TestOneCallerDoesNotQueueForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(2, 1)
		leave, _ := p.enter(t.Context(), "a")
		ctx, cancel := context.WithCancel(t.Context())
		for range maxWaiting {
			go func() {
				if _, ok := p.enter(ctx, "a"); ok {
					t.Error("one that waited came in")
				}
			}()
		}
		synctest.Wait()
		if _, ok := p.enter(ctx, "a"); ok {
			t.Error("one too many came in")
		}
		other, ok := p.enter(ctx, "b")
		if !ok {
			t.Error("another caller did not come in")
		}
		other()
		cancel()
		synctest.Wait()
		leave()
	})
}

// TestPlacesInAnyOrder: random callers, stays and patience; the bounds hold at every moment, and all is free in the end.
func TestPlacesInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(maxAll, maxEach)
		var mu sync.Mutex
		running, in, out := make(map[string]int), 0, 0
		var wg sync.WaitGroup
		random := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			who := fmt.Sprint(random.IntN(9))
			start, stay, patience := random.IntN(20_000), random.IntN(500), random.IntN(2000)
			wg.Go(func() {
				time.Sleep(time.Duration(start) * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(patience)*time.Millisecond)
				defer cancel()
				leave, ok := p.enter(ctx, who)
				mu.Lock()
				if !ok {
					out++
					mu.Unlock()
					return
				}
				in++
				running[who]++
				all := 0
				for _, n := range running {
					all += n
				}
				if running[who] > maxEach || all > maxAll {
					t.Errorf("%d run, %d of them of one", all, running[who])
				}
				mu.Unlock()
				time.Sleep(time.Duration(stay) * time.Millisecond)
				mu.Lock()
				running[who]--
				mu.Unlock()
				leave()
			})
		}
		wg.Wait()
		if in == 0 || out == 0 || p.held != 0 || len(p.by) != 0 || len(p.waiting) != 0 {
			t.Errorf("%d came in, %d did not; at the end %d held, %v, %d waiting", in, out, p.held, p.by, len(p.waiting))
		}
	})
}
