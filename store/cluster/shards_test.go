package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestRest: a node whose server failed leaves its shard to others for a while, but leads it again at once when it was the
// engine that did not know its entries any more: then no other node may have them.
func TestRest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		failure error
		rests   bool
	}{
		{"disk", errors.New("file too large"), true},
		{"fence", fmt.Errorf("database: %w", ErrFenced), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, dir)
				n, err := Join(Options{DSN: relay.NewSecret([]byte("postgres://u@127.0.0.1/d?sslmode=disable")), Node: "a", Version: "test", Lease: time.Minute, Log: slog.New(slog.DiscardHandler)})
				must.Succeed(t, err)
				dead := false
				w.engine.reaches(n, &dead)
				began := time.Now()
				n.now = func() time.Duration { return time.Since(began) }
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go func() { _ = n.Run(ctx) }()
				var led []time.Time
				shard := (&life{w: w, name: "a"}).shard()
				shard.Run = func(context.Context, *Lead) error {
					if led = append(led, time.Now()); len(led) == 2 {
						stop()
						return nil
					}
					return tc.failure
				}
				if err := n.Lead(ctx, []Shard{shard}); err != nil {
					t.Error(err)
				}
				if len(led) != 2 || led[1].Sub(led[0]) > restsFor != tc.rests {
					t.Errorf("it led at %v", led)
				}
				w.engine.breaks(nil)
				n.Close(context.WithoutCancel(ctx))
				w.engine.serving.Wait()
			})
		})
	}
}
