package inbox

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

// TestWatch: a look that fails is soon made again, but not before the network wants it; one that succeeds after ten minutes, or
// when the credential is doubted; and a credential that is refused is the end, of what runs beside as well.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer atomic.Pointer[httpcall.Fault]
		var ended atomic.Bool
		var looks atomic.Int32
		s := status.New("")
		look := func(context.Context) error {
			looks.Add(1)
			if f := answer.Load(); f != nil {
				return f
			}
			return nil
		}
		w := NewWatch(s, slog.New(slog.DiscardHandler), look,
			func(f *httpcall.Fault) (platforms.State, string) {
				if f.Refused(http.StatusUnauthorized) {
					return platforms.BadCredentials, "dead"
				}
				return platforms.Degraded, "away"
			})
		want := func(n int32, state platforms.State) {
			t.Helper()
			synctest.Wait()
			if got := s.Get(); looks.Load() != n || got.State != state {
				t.Errorf("%d looks and %v, want %d and %v", looks.Load(), got, n, state)
			}
		}
		answer.Store(&httpcall.Fault{RetryAfter: time.Hour})
		var err error
		var wg sync.WaitGroup
		wg.Go(func() {
			err = w.Run(t.Context(), func(ctx context.Context) { <-ctx.Done(); ended.Store(true) })
		})
		want(1, platforms.Degraded)
		if at := s.Get().RetryAt; !at.Equal(time.Now().Add(time.Hour)) {
			t.Errorf("it is looked again at %v", at)
		}
		answer.Store(&httpcall.Fault{})
		time.Sleep(time.Hour)
		want(2, platforms.Degraded)
		answer.Store(nil)
		time.Sleep(2 * time.Second)
		want(3, platforms.Connected)
		time.Sleep(10*time.Minute - time.Second)
		want(3, platforms.Connected)
		time.Sleep(time.Second)
		want(4, platforms.Connected)
		answer.Store(&httpcall.Fault{Status: http.StatusUnauthorized, Sent: httpcall.Refused})
		began := time.Now()
		w.Doubt()
		wg.Wait()
		want(5, platforms.BadCredentials)
		if !errors.Is(err, relay.ErrBadCredentials) || !ended.Load() || time.Since(began) != 0 {
			t.Errorf("%v, after %v, and what runs beside has ended: %v", err, time.Since(began), ended.Load())
		}
	})
}

// TestAWatchIsStopped: a bot that is told to stop has stopped, whatever the look said that was under way.
func TestAWatchIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := status.New("")
		w := NewWatch(s, slog.New(slog.DiscardHandler), func(context.Context) error { cancel(); return ctx.Err() },
			func(*httpcall.Fault) (platforms.State, string) { return platforms.BadCredentials, "dead" })
		if err := w.Run(ctx); err != nil || s.Get().State != platforms.Stopped {
			t.Errorf("%v, %v", err, s.Get())
		}
	})
}
