package fair

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// hall is places with everybody in and before them, in a bubble.
type hall struct {
	*Places
	t *testing.T

	mu    sync.Mutex // guards the fields below
	order []string   // who came in, gave up or was asked to leave
	in    map[string]*Place
}

func newHall(t *testing.T, all, each int) *hall {
	return &hall{Places: NewPlaces(all, each), t: t, in: make(map[string]*Place)}
}

// enter has somebody wait for a place, who leaves it when it is asked back.
func (h *hall) enter(name string, o Owner, within time.Duration) {
	go func() {
		ctx, place, ok := h.Enter(h.t.Context(), o, within)
		if !ok {
			h.note(name + " gave up")
			return
		}
		h.note(name)
		h.mu.Lock()
		h.in[name] = place
		h.mu.Unlock()
		<-ctx.Done()
		if errors.Is(context.Cause(ctx), ErrAskedBack) {
			h.note(name + " asked back")
		}
		place.Leave()
	}()
	synctest.Wait()
}

func (h *hall) note(s string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.order = append(h.order, s)
}

func (h *hall) place(name string) *Place {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.in[name]
}

func (h *hall) leave(names ...string) {
	for _, name := range names {
		h.place(name).Leave()
		h.place(name).Leave() // once more it does nothing
		synctest.Wait()
	}
}

// moves has one move so many bytes a second until it leaves.
func (h *hall) moves(bytes int, name string) {
	p := h.place(name)
	go func() {
		for isHeld := true; isHeld; time.Sleep(time.Second) {
			p.Moved(bytes)
			h.Places.mu.Lock()
			isHeld = slices.Contains(h.held, p)
			h.Places.mu.Unlock()
		}
	}()
	synctest.Wait()
}

// want fails the test unless that happened since the last call.
func (h *hall) want(events ...string) {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.order, events) {
		h.t.Errorf("there happened %q, want %q", h.order, events)
	}
	h.order = nil
}

// empty fails the test if anything is left.
func (h *hall) empty() {
	h.t.Helper()
	time.Sleep(2 * time.Second) // what moves ends
	h.Places.mu.Lock()
	defer h.Places.mu.Unlock()
	if len(h.held)+len(h.waiting)+len(h.tally.tenants)+len(h.tally.instances) != 0 || h.tally.Total() != 0 {
		h.t.Errorf("at the end %d are held, %d wait, and the tally is %+v", len(h.held), len(h.waiting), h.tally)
	}
}

// TestPlaces: so many run, and no more; who waits too long gets none; the next is who has the fewest, then the oldest.
func TestPlaces(t *testing.T) { // invariants 1 and 2
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 4, 2)
		h.enter("a1", a1, time.Minute)
		h.enter("a1 again", a1, time.Minute)
		h.enter("a1 waits", a1, time.Minute) // for its own
		h.enter("a2", a2, time.Minute)
		h.enter("b1", b1, time.Minute)
		h.want("a1", "a1 again", "a2", "b1")
		h.enter("a2 waits", a2, 5*time.Second)
		h.place("a1").Settle() // nothing is asked back here
		h.place("a1 again").Settle()
		h.place("a2").Settle()
		h.place("b1").Settle()
		h.enter("b1 waits", b1, time.Minute)
		h.enter("c1", c1, time.Minute)
		h.enter("b2", b2, time.Minute)
		time.Sleep(6 * time.Second)
		h.want("a2 waits gave up")
		h.leave("a2")
		h.want("c1")
		h.leave("a1 again")
		h.want("b2") // of b it has none
		h.leave("a1", "b2", "b1", "c1")
		h.want("a1 waits", "b1 waits")
		h.leave("a1 waits", "b1 waits")
		h.empty()
	})
}

// TestWhatIsAskedBack: places go from who has more to who waits, slow ones at once, others after some seconds.
func TestWhatIsAskedBack(t *testing.T) { // invariant 3
	type tenant struct {
		of   []Owner
		rate int // bytes a second
	}
	fast, slow := slowest, slowest-1
	for name, tc := range map[string]struct {
		hold    []tenant
		settled bool
		taker   Owner
		before  time.Duration // before the taker comes
		after   time.Duration // it has its place; 0: not within ten seconds
		gone    string        // whose place it got; empty: anybody's
	}{
		"a tenant alone keeps what it has":             {[]tenant{{[]Owner{a1, a1, a2, a2}, fast}}, false, a1, time.Minute, 0, ""},
		"another's first takes its part from the most": {[]tenant{{[]Owner{a1, a2, a2, b1}, fast}}, false, c1, time.Minute, patience, "a2"},
		"half is everybody's, and no more":             {[]tenant{{[]Owner{a1, a2, b1, b2}, fast}}, false, b1, time.Minute, 0, ""},
		"its share is taken from one instance's many":  {[]tenant{{[]Owner{a1, a2, a2, a2}, fast}}, false, a1, time.Minute, patience, "a2"},
		"slow, and for long":                           {[]tenant{{[]Owner{a1, a1, b1, b1}, slow}}, false, c1, time.Minute, time.Nanosecond, "a1"},
		"slow, and since when nobody can know yet":     {[]tenant{{[]Owner{a1, b1, c1, {"e", "e1"}}, slow}}, false, Owner{"d", "d1"}, 2 * time.Second, 8 * time.Second, ""},
		"slow, of who has fewer":                       {[]tenant{{[]Owner{a1, a2, a2}, fast}, {[]Owner{b1}, slow}}, false, a1, time.Minute, 0, ""},
		"slow, where others have more":                 {[]tenant{{[]Owner{a1, a2, a2}, fast}, {[]Owner{b1}, slow}}, false, c1, time.Minute, time.Nanosecond, "b1"},
		"slow, of its own that are too many":           {[]tenant{{[]Owner{a1, a1, a1}, slow}}, false, a1, time.Minute, time.Nanosecond, "a1"},
		"slow, and another would not help":             {[]tenant{{[]Owner{a1, a1, a1}, fast}, {[]Owner{b1}, slow}}, false, a1, time.Minute, 0, ""},
		"waiting for nobody":                           {[]tenant{{[]Owner{a1, a2, a2, a2}, 0}}, true, c1, time.Minute, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHall(t, 4, 3)
				for _, some := range tc.hold {
					for _, o := range some.of {
						n := fmt.Sprint(o.Instance, " ", len(h.in))
						h.enter(n, o, time.Second)
						if h.moves(some.rate, n); tc.settled {
							h.place(n).Settle()
						}
					}
				}
				time.Sleep(tc.before)
				synctest.Wait()
				h.order = nil
				began := time.Now()
				_, place, ok := h.Enter(t.Context(), tc.taker, 10*time.Second)
				took := time.Since(began)
				synctest.Wait()
				if ok != (tc.after > 0) || ok && (took > tc.after || took < tc.after-time.Second) {
					t.Errorf("it got a place %v after %v, want %v", ok, took, tc.after)
				}
				if len(h.order) > 1 || (len(h.order) == 1) != ok || ok && !strings.HasPrefix(h.order[0], tc.gone) {
					t.Errorf("%q, want one of %q", h.order, tc.gone)
				}
				if ok {
					place.Leave()
				}
				for name := range h.in {
					h.leave(name)
				}
				h.empty()
			})
		})
	}
}

// TestWhoIsGoneLeavesItToOthers: a place that was asked back for one that gave up is the next one's.
func TestWhoIsGoneLeavesItToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(2, 2)
		ctx, stubborn, _ := p.Enter(t.Context(), a1, 0)
		_, other, _ := p.Enter(t.Context(), a1, 0)
		other.Settle()
		gone := make(chan bool)
		go func() {
			_, _, ok := p.Enter(t.Context(), b1, 5*time.Second)
			gone <- ok
		}()
		<-ctx.Done() // asked back, and it does not go
		if <-gone {
			t.Error("there are three in two places")
		}
		next := make(chan *Place)
		go func() {
			_, l, _ := p.Enter(t.Context(), c1, 5*time.Second)
			next <- l
		}()
		synctest.Wait()
		stubborn.Leave()
		(<-next).Leave()
		other.Leave()
		(&hall{Places: p, t: t}).empty()
	})
}

// TestOneInstanceDoesNotQueueForEver: those that wait are bounded too, of each.
func TestOneInstanceDoesNotQueueForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, 2, 1)
		h.enter("one", a1, 0)
		h.moves(slowest, "one")
		ctx, cancel := context.WithCancel(t.Context())
		for range maxWaiting {
			go func() {
				if _, _, ok := h.Enter(ctx, a1, time.Hour); ok {
					t.Error("one that waited came in")
				}
			}()
		}
		synctest.Wait()
		if _, _, ok := h.Enter(ctx, a1, time.Hour); ok {
			t.Error("one too many came in")
		}
		_, other, ok := h.Enter(ctx, b1, time.Hour)
		if !ok {
			t.Fatal("another did not come in")
		}
		other.Leave()
		cancel()
		synctest.Wait()
		h.leave("one")
		h.empty()
	})
}

// TestPlacesInAnyOrder: random owners, stays, rates and patience. At every moment the bounds hold, nobody waits beside a
// place that is free to them, and nobody who has less than others waits long.
func TestPlacesInAnyOrder(t *testing.T) { // invariants 1 to 3
	const all, each = 16, 4
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(all, each)
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		running, in, out, asked := make(map[Owner]int), 0, 0, 0
		var wg sync.WaitGroup
		visit := func(o Owner, start, stay, patience time.Duration, rate int) {
			time.Sleep(start)
			ctx, place, ok := p.Enter(t.Context(), o, patience)
			mu.Lock()
			if !ok {
				out++
				mu.Unlock()
				return
			}
			in++
			running[o]++
			mu.Unlock()
			for end := time.Now().Add(stay); time.Now().Before(end) && ctx.Err() == nil; {
				place.Moved(rate)
				select {
				case <-time.After(min(time.Second, time.Until(end))):
				case <-ctx.Done():
				}
			}
			mu.Lock()
			if ctx.Err() != nil {
				asked++
			}
			running[o]--
			mu.Unlock()
			place.Leave()
		}
		for range 3000 {
			tenant := random.IntN(4)
			o := Owner{relay.TenantID(fmt.Sprint(tenant)), relay.InstanceID(fmt.Sprint(tenant, random.IntN(1+2*tenant)))}
			start, stay, patience := random.IntN(900_000), random.IntN(30_000), random.IntN(20_000)
			rate := slowest * random.IntN(3)
			wg.Go(func() {
				visit(o, time.Duration(start)*time.Millisecond, time.Duration(stay)*time.Millisecond, time.Duration(patience)*time.Millisecond, rate)
			})
		}
		over := make(chan struct{})
		go func() { wg.Wait(); close(over) }()
		could := make(map[*Place]time.Time) // since when there is a place for one that waits
		for watching := true; watching; {
			select {
			case <-over:
				watching = false
			case <-time.After(250*time.Millisecond + time.Nanosecond):
			}
			synctest.Wait()
			mu.Lock()
			sum := 0
			for o, n := range running {
				if sum += n; n > each {
					t.Errorf("%d of %v run", n, o)
				}
			}
			mu.Unlock()
			p.mu.Lock()
			if len(p.held) != sum || sum > all {
				t.Errorf("%d are held, %d run", len(p.held), sum)
			}
			for _, w := range p.waiting {
				if p.mayLocked(w.owner) {
					t.Errorf("%v waits beside a free place", w.owner)
				}
				v := p.givesWayLocked(w, time.Now())
				if v == nil || could[w].IsZero() {
					could[w] = time.Now()
				}
				if v != nil && time.Since(could[w]) > pressEvery+500*time.Millisecond {
					t.Errorf("%v waits, and %v could have given way since %v", w.owner, v.owner, time.Since(could[w]))
				}
			}
			p.mu.Unlock()
		}
		if in == 0 || out == 0 || asked == 0 {
			t.Errorf("%d came in, %d did not, %d were asked back", in, out, asked)
		}
		(&hall{Places: p, t: t}).empty()
	})
}
