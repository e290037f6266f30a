package wake

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/guard"
	"github.com/hermes-connector/hermes-connector/store"
)

const (
	s         = time.Second
	m         = time.Minute
	targetURL = "https://agent.example/wake?token=hunter2"
)

func TestSomebodyAwayIsPoked(t *testing.T) { // invariant 2
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.grow("home")
		r.want(0)
		if got := r.asked()[0].URL; got != targetURL {
			t.Errorf("asked for %q, want %q", got, targetURL)
		}
		r.pass(4 * time.Hour) // nobody comes
		want := []time.Duration{0, 1 * m, 3 * m, 7 * m, 15 * m, 31 * m}
		for at := 61 * m; at <= 4*time.Hour; at += 30 * m {
			want = append(want, at)
		}
		r.want(want...)
		if got := r.counted(); got[count.WakeSent] != len(want) || len(got) != 1 {
			t.Errorf("counted %v, want %d sent", got, len(want))
		}
	})
}

func TestAtMostOnePokeInACooldown(t *testing.T) { // invariant 2
	bubble(t, Options{Cooldown: 20 * s, Most: 80 * s}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		for range 19 {
			r.grow("home")
			r.pass(s)
		}
		r.want(0)
		r.pass(5 * m)
		r.want(0, 20*s, 60*s, 140*s, 220*s, 300*s)
	})
}

func TestANewEntryDoesNotWaitForTheDoubledPause(t *testing.T) { // invariant 2
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.grow("home")
		r.pass(5 * m)
		r.want(0, 1*m, 3*m) // the next would be at 7
		r.grow("home")
		r.want(0, 1*m, 3*m, 5*m)
		r.pass(30 * s)
		r.grow("home")
		r.pass(25 * s)
		r.want(0, 1*m, 3*m, 5*m)
		r.pass(5 * s)
		r.want(0, 1*m, 3*m, 5*m, 6*m)
	})
}

func TestASessionResets(t *testing.T) { // invariant 2
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.grow("home")
		r.pass(8 * m)
		r.want(0, 1*m, 3*m, 7*m) // the next would be at 15
		r.come("home")
		r.pass(30 * s)
		r.leave("home")
		r.grow("home")
		r.want(0, 1*m, 3*m, 7*m, 8*m+30*s)
		r.pass(10 * m)
		r.want(0, 1*m, 3*m, 7*m, 8*m+30*s, 9*m+30*s, 11*m+30*s, 15*m+30*s)
	})
}

func TestACooldownOutlivesAShortSession(t *testing.T) { // invariant 2
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.grow("home")
		r.pass(5 * s)
		r.come("home")
		r.pass(5 * s)
		r.leave("home")
		r.grow("home")
		r.pass(49 * s)
		r.want(0)
		r.pass(s)
		r.want(0, 1*m)
	})
}

// A session that came and died again between two looks, and left something behind.
func TestASessionThatLeftEntriesResets(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.grow("home")
		r.pass(32 * m)
		r.want(0, 1*m, 3*m, 7*m, 15*m, 31*m) // the next would be at 61
		r.come("home")
		r.event("home")
		r.pass(5 * s)
		r.leave("home")
		r.pass(m)
		r.want(0, 1*m, 3*m, 7*m, 15*m, 31*m, 33*m)
	})
}

// The entry came while the session was there; the session flipped or died before it took it.
func TestAnEntryThatASessionLeavesBehind(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.come("home")
		r.grow("home")
		r.pass(10 * s)
		r.grow("home")
		r.update("home", func(i *store.Instance) { i.Asleep = true })
		r.leave("home")
		r.pass(4 * s)
		r.want()
		r.pass(s)
		r.want(settle)
	})
}

func TestWhoIsConnectedIsNotPoked(t *testing.T) { // invariant 1
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.come("home")
		r.grow("home") // and is never taken
		r.pass(time.Hour)
		r.want()
		if n := r.looks(); n > 61 {
			t.Errorf("looked %d times in an hour", n)
		}
	})
}

func TestWhoComesWhileWeLookIsNotPoked(t *testing.T) { // invariant 1
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.set(func() { r.onLane = func() { r.set(func() { r.here["home"] = true }) } })
		r.grow("home")
		r.pass(time.Hour)
		r.want()
	})
}

func TestAnEntryThatComesWhileWeLookIsNotForgotten(t *testing.T) {
	for name, connected := range map[string]bool{"away": false, "connected": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, r *rig) {
				r.enroll("home", targetURL)
				r.set(func() {
					r.here["home"] = connected
					r.onLane = func() { // after the lane was read as empty
						r.set(func() { r.onLane = nil })
						r.event("home")
						r.waker.Grew("home")
						r.set(func() { r.here["home"] = false })
					}
				})
				r.waker.Grew("home")
				r.pass(3 * m)
				if len(r.asked()) == 0 {
					t.Error("nobody was poked")
				}
			})
		})
	}
}

func TestNothingToDo(t *testing.T) { // invariant 1
	for name, arrange := range map[string]func(*rig){
		"no wake URL":           func(r *rig) { r.enroll("home", ""); r.grow("home") },
		"nothing waits":         func(r *rig) { r.enroll("home", targetURL); r.waker.Grew("home") },
		"nobody of that name":   func(r *rig) { r.waker.Grew("home") },
		"connected and drained": func(r *rig) { r.enroll("home", targetURL); r.come("home"); r.waker.Grew("home") },
		"revoked": func(r *rig) {
			r.enroll("home", targetURL)
			r.event("home")
			if _, err := r.db.Revoke(r.t.Context(), nil, "home"); err != nil {
				r.t.Fatal(err)
			}
			r.waker.Grew("home")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, r *rig) {
				arrange(r)
				r.pass(2 * m)
				r.want()
				r.wantForgotten()
			})
		})
	}
}

// wantForgotten fails if anything is remembered, or anything happens in a day.
func (r *rig) wantForgotten() {
	r.t.Helper()
	looks := r.looks()
	before := r.db.Stats()
	r.pass(24 * time.Hour)
	if n := r.looks() - looks; n != 0 {
		r.t.Errorf("%d looks while nothing waited", n)
	}
	if after := r.db.Stats(); after.Ops != before.Ops {
		r.t.Errorf("%d writes while nothing waited", after.Ops-before.Ops)
	}
	r.waker.mu.Lock()
	defer r.waker.mu.Unlock()
	if len(r.waker.targets) != 0 || r.waker.running.tenants.Total() != 0 || len(r.waker.running.shares) != 0 {
		r.t.Errorf("remembered: %v, %v", r.waker.targets, r.waker.running)
	}
}

func TestIdleMeansIdle(t *testing.T) { // invariant 5
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.grow("home")
		r.pass(5 * s)
		r.come("home")
		r.pass(2 * m) // the cooldown is over
		r.want(0)
		r.wantForgotten()
	})
}

func TestRecordChangesMeanwhile(t *testing.T) { // invariant 1
	for name, tc := range map[string]struct {
		change func(*rig)
		want   []string
	}{
		"another URL": {
			func(r *rig) {
				r.update("home", func(i *store.Instance) { i.WakeURL = "https://other.example/" })
			},
			[]string{targetURL, "https://other.example/"},
		},
		"no URL any more": {
			func(r *rig) { r.update("home", func(i *store.Instance) { i.WakeURL = "" }) },
			[]string{targetURL},
		},
		"revoked": {
			func(r *rig) {
				if _, err := r.db.Revoke(r.t.Context(), nil, "home"); err != nil {
					r.t.Fatal(err)
				}
			},
			[]string{targetURL},
		},
		"dropped by the operator": {func(r *rig) { r.drain("home") }, []string{targetURL}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, r *rig) {
				r.enroll("home", targetURL)
				r.grow("home")
				r.pass(30 * s)
				tc.change(r)
				r.pass(60 * s)
				var got []string
				for _, p := range r.asked() {
					got = append(got, p.URL)
				}
				if fmt.Sprint(got) != fmt.Sprint(tc.want) {
					t.Errorf("asked for %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestRestart(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		for _, i := range []relay.InstanceID{"asleep", "away", "here", "empty", "mute"} {
			url := "https://" + string(i) + ".example/"
			if i == "mute" {
				url = ""
			}
			r.enroll(i, url)
			if i != "empty" {
				r.event(i)
			}
		}
		r.update("asleep", func(i *store.Instance) { i.Asleep = true })
		r.update("empty", func(i *store.Instance) { i.Asleep = true })
		r.set(func() { r.here["here"] = true })
		r.restart(Options{})
		r.want(0)
		if got := r.asked(); len(got) == 0 || got[0].URL != "https://asleep.example/" {
			t.Fatalf("asked for %v, want the one asleep", got)
		}
		r.drain("asleep")
		r.pass(59 * s)
		r.want(0)
		r.pass(s)
		r.want(0, 1*m)
		if got := r.asked(); len(got) < 2 || got[1].URL != "https://away.example/" {
			t.Errorf("asked for %v, want the one that vanished", got)
		}
	})
}

func TestWhoComesBackAfterARestartIsNotPoked(t *testing.T) { // invariant 1
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.event("home")
		r.restart(Options{})
		r.pass(30 * s)
		r.come("home")
		r.pass(10 * m)
		r.want()
		r.wantForgotten()
	})
}

func TestOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		want   count.Counter
	}{
		"ok":        {func(*http.Request) (*http.Response, error) { return answered(204), nil }, count.WakeSent},
		"redirect":  {func(*http.Request) (*http.Response, error) { return answered(302), nil }, count.WakeSent},
		"not found": {func(*http.Request) (*http.Response, error) { return answered(404), nil }, count.WakeFailed},
		"trouble":   {func(*http.Request) (*http.Response, error) { return answered(502), nil }, count.WakeFailed},
		"reset":     {func(*http.Request) (*http.Response, error) { return nil, errReset }, count.WakeFailed},
		"echoed": {func(q *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("malformed HTTP response %q", q.URL)
		}, count.WakeFailed},
		"blocked": {func(*http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("dial: %w", guard.ErrBlocked)
		}, count.WakeBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, r *rig) {
				r.set(func() { r.answer = tc.answer })
				r.enroll("home", targetURL)
				r.grow("home")
				r.pass(m)
				if want := map[count.Counter]int{tc.want: 2}; !maps.Equal(r.counted(), want) {
					t.Errorf("counted %v, want %v", r.counted(), want)
				}
			})
		})
	}
}

// The real guard lets none of these out, and none of them is repeated. (invariant 4)
func TestBlockedAddresses(t *testing.T) {
	w := New(nil, nil, nil, guard.New(guard.Options{}).Client(), Options{})
	for raw, blocked := range map[string]bool{
		"http://127.0.0.1/?hunter2":       true,
		"http://169.254.169.254/?hunter2": true,
		"http://localhost/?hunter2":       true,
		"ftp://agent.example/?hunter2":    true,
		"http://u:hunter2@agent.example/": true,
		"%zzhunter2":                      false, // no request can be made of it
		"http://a\x7f/?hunter2":           false,
	} {
		_, err := w.send(t.Context(), raw)
		if err == nil || errors.Is(err, guard.ErrBlocked) != blocked {
			t.Errorf("%q: %v, want blocked %v", raw, err, blocked)
		}
		if got := guard.Why(err); got == "" || strings.Contains(got, "hunter2") {
			t.Errorf("%q: cause %q", raw, got)
		}
	}
}

func TestAHundredInstances(t *testing.T) { // invariant 3
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.set(func() { r.answer = slow })
		for n := range 100 {
			i := relay.InstanceID(fmt.Sprint("i", n))
			r.enroll(i, fmt.Sprintf("https://%s.example/", i))
			r.event(i)
		}
		for n := range 100 {
			r.waker.Grew(relay.InstanceID(fmt.Sprint("i", n)))
		}
		r.pass(30 * s) // maxPerTenant at a time, a second each
		per := make(map[string]int)
		for _, p := range r.asked() {
			per[p.URL]++
		}
		for url, n := range per {
			if n != 1 {
				t.Errorf("%s was asked %d times", url, n)
			}
		}
		r.set(func() {
			if len(per) != 100 || r.most != maxPerTenant {
				t.Errorf("%d were poked, %d at once; want 100 and %d", len(per), r.most, maxPerTenant)
			}
		})
	})
}

// slow answers after a second.
func slow(q *http.Request) (*http.Response, error) {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return answered(http.StatusOK), nil
	case <-q.Context().Done():
		return nil, q.Context().Err()
	}
}

func TestATargetThatHangsHoldsUpNobodyElse(t *testing.T) { // invariant 3
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.set(func() { r.hang["tarpit.example"] = true })
		for n := range 50 {
			i := relay.InstanceID(fmt.Sprint("a", n)) // before the others in every order
			r.enroll(i, fmt.Sprintf("https://tarpit.example/%d", n))
			r.event(i)
			r.waker.Grew(i)
		}
		synctest.Wait()
		for n := range 20 {
			i := relay.InstanceID(fmt.Sprint("b", n))
			r.enroll(i, fmt.Sprintf("https://%s.example/", i))
			r.grow(i)
		}
		others := 0
		for _, p := range r.asked() {
			if p.At.Truncate(time.Millisecond) != 0 {
				t.Errorf("%v is late", p)
			}
			if p.URL[8] == 'b' {
				others++
			}
		}
		if n := len(r.asked()); others != 20 || n != 20+maxPerHost {
			t.Errorf("%d of %d requests went to the others, want 20 of %d", others, n, 20+maxPerHost)
		}
		r.pass(4*m + 10*s) // 50 in pairs, ten seconds each
		if got := r.counted(); got[count.WakeFailed] < 50 {
			t.Errorf("counted %v, want at least 50 failed", got)
		}
	})
}

// Machines that are switched off, say: one gateway each.
func TestTargetsThatHangHoldUpNobodyElse(t *testing.T) { // invariant 3
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		for n := range 20 {
			i := relay.InstanceID(fmt.Sprint("a", n)) // before the other in every order
			r.set(func() { r.hang[fmt.Sprintf("%s.example", i)] = true })
			r.enroll(i, fmt.Sprintf("https://%s.example/", i))
			r.grow(i)
		}
		r.enroll("home", targetURL)
		r.grow("home")
		if got := r.asked(); len(got) != 21 || got[20].URL != targetURL || got[20].At.Truncate(time.Millisecond) != 0 {
			t.Errorf("asked for %v, want 21 at once", got)
		}
	})
}

func TestAStopDoesNotWaitForATarget(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.set(func() { r.hang["agent.example"] = true })
		r.enroll("home", targetURL)
		r.grow("home")
		start := time.Now()
		r.restart(Options{})
		if took := time.Since(start); took != 0 {
			t.Errorf("the stop took %v", took)
		}
		if got := r.counted(); len(got) != 0 {
			t.Errorf("counted %v for a request that we ended", got)
		}
	})
}

func TestTroubleWithTheStorePasses(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.set(func() { r.broken = errors.New("input/output error") })
		r.restart(Options{}) // finds nothing out
		r.grow("home")
		r.pass(10 * s)
		r.want()
		r.set(func() { r.broken = nil })
		r.pass(50 * s)
		r.want(1 * m)
	})
}

func TestTheMostIsNotLessThanTheCooldown(t *testing.T) {
	bubble(t, Options{Cooldown: time.Hour, Most: m}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		r.grow("home")
		r.pass(150 * m)
		r.want(0, 60*m, 120*m)
	})
}

// TestNobodyIsPokedInQuietHours, and at their end at once. A bubble begins at midnight.
func TestNobodyIsPokedInQuietHours(t *testing.T) { // invariant 1
	bubble(t, Options{}, func(t *testing.T, r *rig) {
		r.enroll("home", targetURL)
		quiet := func(hours string) {
			t.Helper()
			h, err := relay.ParseQuietHours(hours, "UTC")
			if err != nil {
				t.Fatal(err)
			}
			if err := r.db.UpdateInstance(t.Context(), nil, "home", func(i *store.Instance) error { i.Quiet = h; return nil }); err != nil {
				t.Fatal(err)
			}
			r.waker.Grew("home")
			r.pass(0)
		}
		quiet("23:00-02:00")
		r.grow("home")
		r.pass(time.Hour)
		r.grow("home")
		r.pass(time.Hour - s)
		r.want()
		r.pass(s)
		r.want(2 * time.Hour)
		quiet("02:00-07:00")
		r.pass(time.Hour)
		r.want(2 * time.Hour)
		quiet("22:00-02:30") // it is three o'clock
		r.want(2*time.Hour, 3*time.Hour)
	})
}
