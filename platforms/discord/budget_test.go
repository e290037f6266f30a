package discord

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// maxIdentifies of package gateway: in any day.
const (
	maxIdentifies = 100
	day           = 24 * time.Hour
)

// TestBadDays: invariant 3 of package gateway, against everything that can make a bot begin sessions, for more than a day.
func TestBadDays(t *testing.T) {
	t.Parallel()
	while := long.Pick(30*time.Hour, 3*day)
	greet := func(ctx context.Context, c *websocket.Conn) {
		_ = write(ctx, c, obj{"op": 10, "d": obj{"heartbeat_interval": 41250}})
		_, _, _ = c.Read(ctx)
	}
	for name, tc := range map[string]struct {
		fault   func(ctx context.Context, f *fakeDiscord, c *websocket.Conn)
		restart time.Duration // the process is restarted this often; 0: never
	}{
		"4002 to every identify": {fault: func(ctx context.Context, _ *fakeDiscord, c *websocket.Conn) {
			greet(ctx, c)
			_ = c.Close(4002, "")
		}},
		"op 9 to every identify": {fault: func(ctx context.Context, _ *fakeDiscord, c *websocket.Conn) {
			greet(ctx, c)
			_ = write(ctx, c, obj{"op": 9, "d": false})
			_, _, _ = c.Read(ctx)
		}},
		"4014 to every identify": {fault: func(ctx context.Context, _ *fakeDiscord, c *websocket.Conn) {
			greet(ctx, c)
			_ = c.Close(4014, "")
		}},
		"READY, and then 4009": {fault: func(ctx context.Context, f *fakeDiscord, c *websocket.Conn) {
			greet(ctx, c)
			_ = write(ctx, c, obj{"op": 0, "s": 1, "t": "READY", "d": obj{"session_id": "x", "resume_gateway_url": f.socketURL()}})
			_ = c.Close(4009, "")
		}},
		"READY, and then 4007 two minutes later": {fault: func(ctx context.Context, f *fakeDiscord, c *websocket.Conn) {
			greet(ctx, c)
			_ = write(ctx, c, obj{"op": 0, "s": 1, "t": "READY", "d": obj{"session_id": "x", "resume_gateway_url": f.socketURL()}})
			for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
				if _, _, err := c.Read(ctx); err != nil { // a heartbeat
					return
				}
				_ = write(ctx, c, obj{"op": 11})
			}
			_ = c.Close(4007, "")
		}},
		"a process that dies every minute": {restart: time.Minute, fault: func(ctx context.Context, f *fakeDiscord, c *websocket.Conn) {
			greet(ctx, c)
			_ = write(ctx, c, obj{"op": 0, "s": 1, "t": "READY", "d": obj{"session_id": "x", "resume_gateway_url": f.socketURL()}})
			backoff.Pause(ctx, 10*time.Second)
			_ = c.Close(4009, "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
				var identifies []time.Time
				f.hostile = func(ctx context.Context, _ int, c *websocket.Conn) bool {
					tc.fault(ctx, f, c)
					return true
				}
				in := newTestInbox()
				for end := time.Now().Add(while); time.Now().Before(end); {
					r := run(t, open(), in)
					time.Sleep(cmp.Or(tc.restart, while))
					r.end(t)
				}
				synctest.Wait()
				for _, ms := range stateOf(t, in).Budget.Spent {
					identifies = append(identifies, time.UnixMilli(ms))
				}
				if n := len(identifies); n > maxIdentifies || n < 10 {
					t.Errorf("%d identifies in the last day, want some, and at most %d", n, maxIdentifies)
				}
				if n := f.counts().conns; n > int(2*while/time.Minute) {
					t.Errorf("%d connections in %v", n, while)
				}
			})
		})
	}
}

// TestBudgetUsedUp: the bot says until when it waits, and does not ask for a session before.
func TestBudgetUsedUp(t *testing.T) {
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		f.remaining = 0
		r := run(t, open(), newTestInbox())
		time.Sleep(30 * time.Minute)
		if s := r.p.Status(); s.State != platforms.Degraded || !strings.Contains(s.Reason, "resets at 2026-11-01T13:00:00Z") {
			t.Errorf("status %+v", s)
		}
		if n := f.identifies(); n != 0 {
			t.Errorf("%d identifies without a budget", n)
		}
		f.mu.Lock()
		f.remaining = 5
		f.mu.Unlock()
		time.Sleep(45 * time.Minute)
		if s := r.p.Status(); s.State != platforms.Connected {
			t.Errorf("status %+v", s)
		}
		r.end(t)
	})
}
