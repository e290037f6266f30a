package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
)

const (
	// triedWithin bounds how long the service manager, and the person who started the server, wait for bots whose
	// networks do not answer.
	triedWithin = 10 * time.Second
	// lookAgain is the pause between two looks at the bots.
	lookAgain = 50 * time.Millisecond
)

// announce returns a function that tells the service manager that the server is ready: as soon as every bot has tried
// to connect, at the latest after triedWithin. If stop or the function's own context ends before, it sends nothing.
func (s *serving) announce(stop context.Context, c *core) func(context.Context) error {
	return func(ctx context.Context) error {
		if !s.manager.Asked() {
			return nil
		}
		until := time.Now().Add(triedWithin)
		tick := time.NewTicker(lookAgain)
		defer tick.Stop()
		for tried, all := triedOf(c.hub.Bots()); tried < all && time.Now().Before(until); tried, all = triedOf(c.hub.Bots()) {
			select {
			case <-stop.Done():
				return nil
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
		s.manager.Ready(connectedOf(c.hub.Bots()))
		return nil
	}
}

// triedOf returns how many of the bots have tried to connect, and how many there are. A bot that still connects has
// tried if its RetryAt is set: a first try has failed then.
func triedOf(bots []platforms.Bot) (tried, all int) {
	for _, p := range bots {
		st := p.Status()
		waits := st.State == platforms.Starting || st.State == platforms.Connecting
		if !waits || !st.RetryAt.IsZero() {
			tried++
		}
	}
	return tried, len(bots)
}

// connectedOf returns the status line for the service manager: how many of the bots are connected.
func connectedOf(bots []platforms.Bot) string {
	n := 0
	for _, p := range bots {
		if p.Status().State == platforms.Connected {
			n++
		}
	}
	return fmt.Sprintf("running, %d of %d bots connected", n, len(bots))
}

// alive returns when the hub and the database of every core have answered: everything else in the server waits for
// these two. While one of them hangs, alive does not return, and the service manager restarts the server.
func (s *serving) alive(ctx context.Context) {
	for _, c := range s.serve() {
		c.hub.Ready()
		_, _ = c.db.Gateways(ctx) // an error is reported as a finding: a restart repairs no disk
	}
}
