package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/platforms/status"
	"github.com/hermes-connector/hermes-connector/relay"
)

// Watch asks a network from time to time whether it still accepts a bot's credential. A network that only calls the bot
// does not report that.
type Watch struct {
	// First is the pause after the first failed look, and Every the pause after a successful one. NewWatch sets one second
	// and ten minutes; others must be set before Run.
	First, Every time.Duration

	status  *status.Tracker
	log     *slog.Logger
	look    func(context.Context) error
	judge   func(*httpcall.Fault) (platforms.State, string)
	doubted chan struct{} // capacity 1
}

// NewWatch makes the Watch of a bot. look makes a request for which the network needs the credential. judge says what a
// failure means for the bot: BadCredentials, which ends it, or Degraded, and why.
func NewWatch(s *status.Tracker, log *slog.Logger, look func(context.Context) error, judge func(*httpcall.Fault) (platforms.State, string)) *Watch {
	return &Watch{First: time.Second, Every: 10 * time.Minute, status: s, log: log, look: look, judge: judge, doubted: make(chan struct{}, 1)}
}

// Doubt makes Run look now: the network has just refused the credential.
func (w *Watch) Doubt() {
	select {
	case w.doubted <- struct{}{}:
	default: // Run is told already
	}
}

// Run asks the network from time to time, and runs the given functions meanwhile. It returns ErrBadCredentials when the
// network refuses the credential, or nil when ctx ended, in both cases after all functions have returned.
func (w *Watch) Run(ctx context.Context, beside ...func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, run := range beside {
		wg.Go(func() { run(ctx) })
	}
	w.status.Set(platforms.Connecting, "")
	wait := backoff.Backoff{First: w.First, Max: time.Minute}
	for ctx.Err() == nil {
		pause, err := w.Every, w.look(ctx)
		switch {
		case err == nil:
			wait.Reset()
			w.status.Set(platforms.Connected, "")
		case ctx.Err() == nil:
			f := httpcall.FaultOf(err)
			state, reason := w.judge(f)
			w.status.Set(state, reason)
			if state == platforms.BadCredentials {
				return fmt.Errorf("%w: %w", relay.ErrBadCredentials, err)
			}
			pause = max(wait.Next(), f.RetryAfter)
			w.status.SetRetryAt(time.Now().Add(pause))
			w.log.Warn("credential not checked; trying again", "in", pause, "reason", reason, "err", err)
		}
		select {
		case <-time.After(pause):
		case <-w.doubted:
		case <-ctx.Done():
		}
	}
	w.status.Set(platforms.Stopped, "")
	return nil
}
