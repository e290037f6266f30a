package rest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

// line is who left, in order.
type line struct {
	wg   sync.WaitGroup
	mu   sync.Mutex // guards the field below
	left []string
}

// join has a request wait on its own goroutine, and returns once it does.
func (n *line) join(ctx context.Context, l *limiter, route, name string) {
	n.wg.Go(func() {
		err := l.wait(ctx, route, false)
		n.mu.Lock()
		defer n.mu.Unlock()
		if err != nil {
			name += " not"
		}
		n.left = append(n.left, name)
	})
	synctest.Wait()
}

func TestWhoLeavesNext(t *testing.T) {
	for name, tc := range map[string]struct {
		come []string // by whom; "own": the connector
		want []string
	}{
		"first come first served": {[]string{"a1", "a2", "a3"}, []string{"a1", "a2", "a3"}},
		"instances take turns":    {[]string{"a1", "a2", "a3", "b1", "b2", "c1"}, []string{"a1", "b1", "c1", "a2", "b2", "a3"}},
		"the connector's own go before": {
			[]string{"a1", "a2", "own1", "b1", "own2"}, []string{"own1", "own2", "a1", "b1", "a2"},
		},
	} {
		for scene, routes := range map[string]func(i int) string{
			"of one route":   func(int) string { return send1 },
			"of many routes": func(i int) string { return "POST /channels/" + strconv.Itoa(i+50) + "/messages" },
		} {
			t.Run(name+" "+scene, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLimiter()
					waits(t, l, send1) // from now on one a second
					l.seen(t.Context(), send1, limitHeader("a", 1, 0, 1), 200)
					for i := range botRate.Burst - 1 { // and of all together one in botRate.Every
						waits(t, l, "POST /channels/"+strconv.Itoa(i+100)+"/messages")
					}
					var n line
					for i, who := range tc.come {
						ctx := t.Context()
						if who[0] != 'o' {
							ctx = asking(t, relay.InstanceID(who[:1]))
						}
						n.join(ctx, l, routes(i), who)
					}
					n.wg.Wait()
					if diff := cmp.Diff(tc.want, n.left); diff != "" {
						t.Errorf("left (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// TestNobodyStarves: neither a flood of the connector's own requests nor one of another instance keeps
// an instance from its turn.
func TestNobodyStarves(t *testing.T) {
	for name, who := range map[string]relay.InstanceID{"look-ups": "", "another instance": "b"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter()
				var n line
				for i := range 400 {
					n.join(asking(t, who), l, "GET /channels/"+strconv.Itoa(i+100), "flood")
				}
				start := time.Now()
				for i := range 10 {
					if err := l.wait(asking(t, "a"), "POST /channels/"+strconv.Itoa(i+1)+"/messages", false); err != nil {
						t.Fatal(err)
					}
				}
				if d := time.Since(start); d > 10*(maxOwnInRow+1)*botRate.Every {
					t.Errorf("ten requests took %v", d)
				}
				n.wg.Wait()
			})
		})
	}
}

// TestToldAtOnceBehindALongQueue: who is too far behind in the queue of a known limit need not wait to
// learn it; who is not leaves in time.
func TestToldAtOnceBehindALongQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		waits(t, l, send1)
		l.seen(t.Context(), send1, limitHeader("a", 5, 4, 5), 200)
		ctx, cancel := context.WithTimeout(asking(t, "a"), 25*time.Second)
		defer cancel()
		start := time.Now()
		var n line
		for range 100 {
			n.join(ctx, l, send1, "x")
		}
		n.mu.Lock()
		refused := len(n.left) - 4 // four could leave at once
		n.mu.Unlock()
		if want := 100 - 4 - 4*5; refused != want || time.Since(start) != 0 {
			t.Errorf("%d were told at once, want %d", refused, want)
		}
		n.wg.Wait()
		if d := time.Since(start); d != 20*time.Second || slices.Contains(n.left[4+refused:], "x not") {
			t.Errorf("the others left within %v: %q", d, n.left[4+refused:])
		}
		err := l.wait(asking(t, "a"), send1, false) // without a deadline there is no too late
		if err != nil {
			t.Error(err)
		}
	})
}

// TestWaitersLeaveNothingBehind: whatever comes, goes, is answered and given up, everybody is told, the
// rates hold, and nobody is left in the queue.
func TestWaitersLeaveNothingBehind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type ask struct{ who, route, pause, patience, limit int }
		asks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ask {
			return ask{
				rapid.IntRange(0, 3).Draw(t, "who"), rapid.IntRange(0, 4).Draw(t, "route"), rapid.IntRange(0, 50).Draw(t, "pause in ms"),
				rapid.IntRange(1, 30).Draw(t, "patience in s"), rapid.IntRange(0, 3).Draw(t, "limit"),
			}
		}), 1, 150).Draw(rt, "asks")
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter()
			var wg sync.WaitGroup
			var mu sync.Mutex
			var left []time.Time
			for _, a := range asks {
				<-time.After(time.Duration(a.pause) * time.Millisecond)
				route := "POST /channels/" + strconv.Itoa(a.route+1) + "/messages"
				ctx := t.Context()
				if a.who > 0 {
					ctx = asking(t, relay.InstanceID(strconv.Itoa(a.who)))
				}
				ctx, cancel := context.WithTimeout(ctx, time.Duration(a.patience)*time.Second)
				wg.Go(func() {
					defer cancel()
					deadline, _ := ctx.Deadline()
					err := l.wait(ctx, route, false)
					if err != nil {
						var ae *httpcall.Fault
						if !errors.As(err, &ae) || ae.Sent != httpcall.Never || time.Now().After(deadline) {
							t.Errorf("wait = %v", err)
						}
						return
					}
					mu.Lock()
					left = append(left, time.Now())
					mu.Unlock()
					backoff.Pause(ctx, 100*time.Millisecond)
					switch a.limit {
					case 0:
						l.seen(ctx, route, nil, 0)
					case 1:
						h := limitHeader("b", 2, 0, 1)
						h.Set("Retry-After", "2")
						l.seen(ctx, route, h, 429)
					default:
						l.seen(ctx, route, limitHeader("b", a.limit, a.limit-1, 0.5), 200)
					}
				})
			}
			wg.Wait()
			for i := 50; i < len(left); i++ {
				if left[i].Sub(left[i-50]) < time.Second {
					t.Fatalf("51 requests within %v", left[i].Sub(left[i-50]))
				}
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(l.waiting) != 0 {
				t.Fatalf("%d still wait", len(l.waiting))
			}
		})
	})
}

// TestAnswersOpenNoReserve: the connector takes placeholders away, many at once. That counts against no
// rate, so what is kept of the bot's burst stays kept: whoever runs wild meanwhile gets nothing of it.
func TestAnswersOpenNoReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for n := range 100 {
			wg.Go(func() { _ = l.wait(platforms.For(ctx, "wild"), "GET /channels/"+strconv.Itoa(1000+n), false) })
		}
		synctest.Wait()
		for n := range 150 {
			wg.Go(func() { _ = l.wait(ctx, "DELETE /webhooks/1/token"+strconv.Itoa(n)+"/messages/@original", false) })
		}
		synctest.Wait()
		start := time.Now()
		if err := l.wait(platforms.For(ctx, "calm"), "POST /channels/7/messages", false); err != nil || time.Since(start) != 0 {
			t.Errorf("waited %s, %v", time.Since(start), err)
		}
	})
}
