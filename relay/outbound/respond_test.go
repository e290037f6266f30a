package outbound

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/background"
	"github.com/hermes-connector/hermes-connector/relay/count"
)

// A late reply to /link is the connector's own: it is neither given twice nor lost to a limit.
func TestTheConnectorsOwnAnswer(t *testing.T) {
	busy := &relay.ActionError{Outcome: relay.NotSent, Public: "network: rate limited, retry after 5", RetryAfter: 5 * time.Second}
	for name, tc := range map[string]struct {
		errs     []error
		answers  int // tried
		ordinary int
	}{
		"at once":          {nil, 1, 0},
		"after a limit":    {[]error{busy, busy}, 3, 0},
		"perhaps":          {[]error{&relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}}, 1, 0},
		"the token is old": {[]error{&relay.ActionError{Outcome: relay.NotSent, Public: "gone", Err: platforms.ErrCapabilityGone}}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := local.NewNetwork()
				tries := 0
				p := &answerer{Loopback: local.NewLoopback(net, nil), answer: func() error {
					tries++
					if tries <= len(tc.errs) {
						return tc.errs[tries-1]
					}
					return nil
				}}
				tasks := background.New(new(count.Totals), slog.New(slog.DiscardHandler))
				out := New(Options{Bots: hosts{p}, Tasks: tasks})
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { tasks.Run(ctx) })
				c := &platforms.Capability{Event: "i1", Placeholder: true}
				out.Capabilities.Answer(relay.Event{Bot: p.ID(), Source: relay.Source{ChatID: "@ann"}}, relay.Answer{Text: "linked"}, c)
				time.Sleep(time.Minute)
				cancel()
				wg.Wait()
				if tries != tc.answers || len(net.Acts()) != tc.ordinary {
					t.Errorf("%d answers and %d messages, want %d and %d", tries, len(net.Acts()), tc.answers, tc.ordinary)
				}
			})
		})
	}
}
