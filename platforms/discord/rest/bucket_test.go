package rest

import (
	"context"
	"errors"
	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// limitHeader is what Discord says about a bucket.
func limitHeader(bucket string, limit, left int, after float64) http.Header {
	h := http.Header{}
	h.Set("X-RateLimit-Bucket", bucket)
	h.Set("X-RateLimit-Limit", strconv.Itoa(limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	h.Set("X-RateLimit-Reset-After", strconv.FormatFloat(after, 'f', 3, 64))
	return h
}

// waits is how long a request has to wait.
func waits(t *testing.T, l *limiter, route string) time.Duration {
	t.Helper()
	start := time.Now()
	if err := l.wait(t.Context(), route, false); err != nil {
		t.Fatalf("wait: %v", err)
	}
	return time.Since(start)
}

const (
	send1 = "POST /channels/1/messages"
	edit1 = "PATCH /channels/1/messages/:id"
	send2 = "POST /channels/2/messages"
)

func TestBuckets(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(*limiter) // after a request on send1 was let through
		next string
		want time.Duration
	}{
		"some left":                {func(l *limiter) { l.seen(t.Context(), send1, limitHeader("a", 5, 4, 5), 200) }, send1, 0},
		"none left":                {func(l *limiter) { l.seen(t.Context(), send1, limitHeader("a", 5, 0, 2.5), 200) }, send1, 2500 * time.Millisecond},
		"not answered yet":         {func(*limiter) {}, send1, unknownWindow},
		"answered without a limit": {func(l *limiter) { l.seen(t.Context(), send1, http.Header{}, 200) }, send1, 0},
		"another channel":          {func(l *limiter) { l.seen(t.Context(), send1, limitHeader("a", 5, 0, 2.5), 200) }, send2, 0},
		"another route":            {func(l *limiter) { l.seen(t.Context(), send1, limitHeader("a", 5, 0, 2.5), 200) }, edit1, 0},
		"a refusal":                {func(l *limiter) { l.seen(t.Context(), send1, limitHeader("a", 5, 0, 2.5), 403) }, send1, 2500 * time.Millisecond},
		"no answer":                {func(l *limiter) { l.seen(t.Context(), send1, nil, 0) }, send1, unknownWindow},
		"a 429 without anything":   {func(l *limiter) { l.seen(t.Context(), send1, http.Header{}, 429) }, send2, leastPenalty},
		"a 429 that names the bucket": {func(l *limiter) {
			h := limitHeader("a", 5, 0, 1)
			h.Set("Retry-After", "3")
			l.seen(t.Context(), send1, h, 429)
		}, send1, 3 * time.Second},
		"and leaves others alone": {func(l *limiter) {
			h := limitHeader("a", 5, 0, 1)
			h.Set("Retry-After", "3")
			l.seen(t.Context(), send1, h, 429)
		}, send2, 0},
		"a 429 for the bot": {func(l *limiter) {
			h := limitHeader("a", 5, 3, 1)
			h.Set("Retry-After", "7")
			h.Set("X-RateLimit-Global", "true")
			l.seen(t.Context(), send1, h, 429)
		}, send2, 7 * time.Second},
		"which is not about interactions": {func(l *limiter) {
			l.seen(t.Context(), send1, http.Header{"Retry-After": {"7"}, "X-Ratelimit-Scope": {"global"}}, 429)
		}, "POST /webhooks/9/abc", 0},
		"a 429 for the address": {func(l *limiter) { l.seen(t.Context(), send1, http.Header{"Retry-After": {"60"}}, 429) }, "POST /webhooks/9/abc", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter()
				if d := waits(t, l, send1); d != 0 {
					t.Fatalf("the first request waited %v", d)
				}
				tc.then(l)
				if got := l.opensIn(t.Context(), tc.next); got != tc.want {
					t.Errorf("opensIn is %v, want %v", got, tc.want)
				}
				if got := waits(t, l, tc.next); got != tc.want {
					t.Errorf("the next request waited %v, want %v", got, tc.want)
				}
			})
		})
	}
}

func TestRoutesShareABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		waits(t, l, send1)
		l.seen(t.Context(), send1, limitHeader("shared", 2, 1, 4), 200)
		waits(t, l, edit1)
		l.seen(t.Context(), edit1, limitHeader("shared", 2, 0, 4), 200)
		if d := waits(t, l, send1); d != 4*time.Second {
			t.Errorf("waited %v, want 4s", d)
		}
	})
}

func TestWindowIsUsedUpWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		waits(t, l, send1)
		l.seen(t.Context(), send1, limitHeader("a", 3, 2, 5), 200)
		for range 2 {
			if d := waits(t, l, send1); d != 0 {
				t.Fatalf("waited %v within the limit", d)
			}
		}
		if d := waits(t, l, send1); d != 5*time.Second {
			t.Fatalf("waited %v, want for the next window", d)
		}
		l.seen(t.Context(), send1, limitHeader("a", 3, 2, 5), 200) // of the first request of all, very late
		for range 2 {
			if d := waits(t, l, send1); d != 0 {
				t.Fatalf("waited %v within the next window", d)
			}
		}
		if d := waits(t, l, send1); d == 0 {
			t.Fatal("a fourth request passed in the next window")
		}
	})
}

// TestRefusedAtOnceWhenTheBucketOpensTooLate: nobody sleeps past their deadline.
func TestRefusedAtOnceWhenTheBucketOpensTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		waits(t, l, send1)
		l.seen(t.Context(), send1, limitHeader("a", 5, 0, 30), 200)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		start := time.Now()
		err := l.wait(ctx, send1, false)
		var ae *httpcall.Fault
		if !errors.As(err, &ae) || ae.Sent != httpcall.Never || ae.RetryAfter != 30*time.Second || time.Since(start) != 0 {
			t.Errorf("wait = %+v after %v", err, time.Since(start))
		}
		if err := l.wait(ctx, send1, true); err == nil {
			t.Error("waitOpen says open")
		}
		go func() {
			<-time.After(time.Second)
			cancel()
		}()
		l.seen(t.Context(), send1, limitHeader("a", 5, 0, 10), 200)
		if err := l.wait(ctx, send1, false); !errors.As(err, &ae) || !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
			t.Errorf("wait = %+v after %v, want when the context ended", err, time.Since(start))
		}
		patience, lose := context.WithTimeout(t.Context(), 2*time.Second)
		defer lose()
		start = time.Now()
		if err := l.wait(platforms.Patient(t.Context(), patience), send1, false); !errors.As(err, &ae) || ae.Sent != httpcall.Never || time.Since(start) != 2*time.Second {
			t.Errorf("wait = %+v after %v, want when the patience ended", err, time.Since(start))
		}
	})
}

func TestWaiterLearnsFromAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		waits(t, l, send1)
		done := make(chan time.Duration, 1)
		start := time.Now()
		go func() {
			_ = l.wait(t.Context(), send1, false)
			done <- time.Since(start)
		}()
		<-time.After(100 * time.Millisecond)
		l.seen(t.Context(), send1, limitHeader("a", 5, 4, 5), 200)
		if d := <-done; d != 100*time.Millisecond {
			t.Errorf("waited %v, want until the answer", d)
		}
	})
}

func TestBotStaysBelowFiftyASecond(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pauses := rapid.SliceOfN(rapid.IntRange(0, 30), 51, 200).Draw(rt, "pauses in ms")
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter()
			var left []time.Time
			for i, ms := range pauses {
				<-time.After(time.Duration(ms) * time.Millisecond)
				waits(t, l, "POST /channels/"+strconv.Itoa(i)+"/messages")
				left = append(left, time.Now())
				if i >= 50 && left[i].Sub(left[i-50]) < time.Second {
					t.Fatalf("51 requests within %v", left[i].Sub(left[i-50]))
				}
				if d := waits(t, l, "POST /webhooks/9/t"+strconv.Itoa(i)); d != 0 {
					t.Fatalf("an answer to an interaction waited %v", d)
				}
			}
		})
	})
}

func TestSharedLimitsAreNotOurFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		for range 2 * maxRefused {
			l.seen(t.Context(), send1, http.Header{"X-Ratelimit-Scope": {"shared"}, "X-Ratelimit-Bucket": {"a"}}, 429)
		}
		waits(t, l, send2)
		for i := range maxRefused - 1 {
			l.seen(t.Context(), "POST /channels/"+strconv.Itoa(i%20+5)+"/messages", http.Header{}, []int{401, 403, 404}[i%3])
		}
		waits(t, l, send2)
		l.seen(t.Context(), send2, http.Header{"X-Ratelimit-Bucket": {"b"}}, 429)
		err := l.wait(t.Context(), "GET /gateway/bot", false)
		var ae *httpcall.Fault
		if !errors.As(err, &ae) || ae.Sent != httpcall.Never || ae.RetryAfter <= 9*time.Minute {
			t.Errorf("wait = %v", err)
		}
	})
}

func TestIdleBucketsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		for i := range 1000 {
			route := "POST /channels/" + strconv.Itoa(i+1) + "/messages"
			waits(t, l, route)
			l.seen(t.Context(), route, limitHeader("a", 5, 4, 5), 200)
		}
		var n noes
		n.remember("webhooks/9/t", &httpcall.Fault{}, TokenFor)
		<-time.After(2 * TokenFor)
		waits(t, l, send1)
		n.remember("webhooks/9/u", &httpcall.Fault{}, TokenFor)
		l.mu.Lock()
		defer l.mu.Unlock()
		if left := len(l.buckets.routes) + len(l.buckets.named) + len(n.by); left > 2 {
			t.Errorf("%d entries are left", left)
		}
	})
}

func TestRouteOf(t *testing.T) {
	for path, want := range map[string]string{
		"/channels/1/messages/2":                            "/channels/1/messages/:id",
		"/channels/1/messages/2/reactions/%F0%9F%91%80/@me": "/channels/1/messages/:id/reactions/:emoji/@me",
		"/channels/1/messages/2/threads":                    "/channels/1/messages/:id/threads",
		"/guilds/1/members/2":                               "/guilds/1/members/:id",
		"/guilds/1/threads/active":                          "/guilds/1/threads/active",
		"/applications/1/commands?with_localizations=true":  "/applications/1/commands",
		"/webhooks/1/" + hookToken + "/messages/@original":  "/webhooks/1/bba02b555ec5f10f/messages/@original",
		"/interactions/1/" + hookToken + "/callback":        "/interactions/:id/:token/callback",
	} {
		if got := RouteOf("GET", path); got != "GET "+want {
			t.Errorf("route of %s is %q, want %q", path, got, want)
		}
	}
	if got := topLevel("POST /webhooks/1/abc/messages/:id"); got != "webhooks/1/abc" {
		t.Errorf("top level is %q", got)
	}
}

func FuzzSeen(f *testing.F) {
	f.Add("a", "5", "0", "1.5", "3", "user", 429)
	f.Add("", "-1", "x", "NaN", "1e300", "", 429)
	f.Fuzz(func(t *testing.T, bucket, limit, left, after, retry, scope string, status int) {
		l := newLimiter()
		h := http.Header{}
		for key, value := range map[string]string{
			"X-RateLimit-Bucket": bucket, "X-RateLimit-Limit": limit, "X-RateLimit-Remaining": left,
			"X-RateLimit-Reset-After": after, "Retry-After": retry, "X-RateLimit-Scope": scope,
		} {
			h.Set(key, value)
		}
		_ = l.wait(t.Context(), send1, false)
		l.seen(t.Context(), send1, h, status)
		if d := l.opensIn(t.Context(), send1); d < 0 || d > 24*time.Hour {
			t.Fatalf("opens in %v", d)
		}
	})
}
