package discord

import (
	"context"
	"github.com/hermes-connector/hermes-connector/platforms/discord/gateway"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
)

// simulated runs body in a bubble with a fake without sockets.
func simulated(t *testing.T, body func(t *testing.T, f *fakeDiscord, open func() *Bot)) {
	synctest.Test(t, func(t *testing.T) {
		afterEpoch()
		f := newFakeDiscord()
		rt := f.pipe(t)
		body(t, f, func() *Bot { return f.testBot(t, rt, t.Output(), nil) })
	})
}

// afterEpoch moves a bubble's clock to a time at which Discord has ids: they begin in 2015, a bubble in 2000.
func afterEpoch() { time.Sleep(time.Until(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))) }

// TestFaults: whatever the first connections do, the bot comes through, in bounded time, and loses
// nothing that was said from then on.
func TestFaults(t *testing.T) {
	ack := obj{"op": 11}
	hello := obj{"op": 10, "d": obj{"heartbeat_interval": 41250}}
	// say writes payloads, and then nothing more.
	say := func(payloads ...any) func(context.Context, *websocket.Conn) {
		return func(ctx context.Context, c *websocket.Conn) {
			for _, p := range payloads {
				if write(ctx, c, p) != nil {
					return
				}
			}
			for {
				if _, _, err := c.Read(ctx); err != nil {
					return
				}
			}
		}
	}
	for name, tc := range map[string]struct {
		fault func(ctx context.Context, c *websocket.Conn)
		times int           // connections that suffer it; 0 means 1
		most  time.Duration // until the bot is connected all the same
		acks  bool
	}{
		"hello never":                   {fault: say(), most: 25 * time.Second},
		"hello that makes no sense":     {fault: say(obj{"op": 10, "d": obj{"heartbeat_interval": -1}}), most: 10 * time.Second},
		"READY never":                   {fault: say(hello), most: 25 * time.Second},
		"READY never, but acks":         {fault: beating(hello), most: 25 * time.Second},
		"READY that makes no sense":     {fault: say(hello, obj{"op": 0, "t": "READY", "s": 1, "d": obj{}}), most: 15 * time.Second},
		"op 7 before the hello":         {fault: say(obj{"op": 7}), most: 10 * time.Second},
		"op 7 in the handshake":         {fault: say(hello, obj{"op": 7}), most: 10 * time.Second},
		"op 11 before the hello":        {fault: say(ack, ack), most: 25 * time.Second},
		"op 1 before the hello":         {fault: say(obj{"op": 1}, obj{"op": 1}), most: 25 * time.Second},
		"op 9 in the handshake":         {fault: say(hello, obj{"op": 9, "d": false}), most: 20 * time.Second},
		"op 9 that can be resumed":      {fault: say(hello, obj{"op": 9, "d": true}), most: 20 * time.Second},
		"ops nobody knows":              {fault: say(obj{"op": 99}, obj{"op": -1}, hello, obj{"op": 7}), most: 10 * time.Second},
		"not JSON":                      {fault: raw("nonsense"), most: 10 * time.Second},
		"closed 1000":                   {fault: closing(1000), most: 10 * time.Second},
		"closed 1001":                   {fault: closing(1001), most: 10 * time.Second},
		"closed 4000":                   {fault: closing(4000), most: 10 * time.Second},
		"closed 4002 again and again":   {fault: closing(4002), times: 8, most: 15 * time.Minute},
		"closed 4008":                   {fault: closing(4008), most: 10 * time.Second},
		"closed 4009":                   {fault: closing(4009), most: 10 * time.Second},
		"cut after the upgrade":         {fault: func(_ context.Context, c *websocket.Conn) { _ = c.CloseNow() }, times: 3, most: time.Minute},
		"a flood of heartbeat requests": {fault: say(hello, slices.Repeat([]any{obj{"op": 1}}, 200), obj{"op": 7}), most: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
				f.hostile = func(ctx context.Context, n int, c *websocket.Conn) bool {
					if n >= max(tc.times, 1) {
						return false
					}
					tc.fault(ctx, c)
					return true
				}
				in := newTestInbox()
				began := time.Now()
				r := run(t, open(), in)
				for r.p.Status().State != platforms.Connected {
					time.Sleep(100 * time.Millisecond)
					if d := time.Since(began); d > tc.most {
						t.Fatalf("not connected after %s: %+v", d, r.p.Status())
					}
				}
				f.say("500", "hello")
				synctest.Wait()
				in.await(t, "hello")
				r.end(t)
				if closes := f.counts().closes; slices.Contains(closes, 1000) || slices.Contains(closes, 1001) {
					t.Errorf("closed with %v", closes)
				}
			})
		})
	}
}

// beating greets and answers heartbeats, and nothing else.
func beating(hello any) func(context.Context, *websocket.Conn) {
	return func(ctx context.Context, c *websocket.Conn) {
		_ = write(ctx, c, hello)
		for range 1000 {
			time.Sleep(time.Second)
			if write(ctx, c, obj{"op": 11}) != nil {
				return
			}
		}
	}
}

func raw(text string) func(context.Context, *websocket.Conn) {
	return func(ctx context.Context, c *websocket.Conn) {
		_ = c.Write(ctx, websocket.MessageText, []byte(text))
		_, _, _ = c.Read(ctx)
	}
}

func closing(code websocket.StatusCode) func(context.Context, *websocket.Conn) {
	return func(ctx context.Context, c *websocket.Conn) {
		_ = write(ctx, c, obj{"op": 10, "d": obj{"heartbeat_interval": 41250}})
		_, _, _ = c.Read(ctx)
		_ = c.Close(code, "")
	}
}

// TestSlowLoris: a peer that keeps the connection busy without ever finishing a payload is left.
func TestSlowLoris(t *testing.T) {
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		f.bareConns = 3
		f.bare = func(ctx context.Context, n int, c net.Conn) {
			start := [][]byte{
				{},                           // not even a frame
				{0x81, 126, 0x10, 0},         // a text of 4,096 bytes
				{0x01, 1, ' ', 0x00, 1, ' '}, // a text that goes on
			}[n]
			_, _ = c.Write(start)
			for backoff.Pause(ctx, time.Second) {
				drip := []byte{' '}
				if n == 2 {
					drip = []byte{0x00, 1, ' '}
				}
				if n > 0 {
					if _, err := c.Write(drip); err != nil {
						break
					}
				}
			}
		}
		began := time.Now()
		r := run(t, open(), newTestInbox())
		awaitState(t, r.p, platforms.Connected, "")
		if d := time.Since(began); d > 3*(15*time.Second+hangUpWait)+time.Minute {
			t.Errorf("connected only after %s", d)
		}
		r.end(t)
	})
}

// TestMissedAckResumes: a peer that no longer answers (half-open TCP) is left after one heartbeat,
// with a code that keeps the session.
func TestMissedAckResumes(t *testing.T) {
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		in := newTestInbox()
		r := run(t, open(), in)
		time.Sleep(2 * time.Minute)
		f.mu.Lock()
		f.deafAcks = true
		f.onDispatch = func(n int, _ []byte) bool { return n > 0 } // nor does anything arrive
		f.mu.Unlock()
		f.say("500", "into the void")
		time.Sleep(2*f.interval + 20*time.Second) // the ack of one may just have come
		f.mu.Lock()
		f.deafAcks = false
		f.mu.Unlock()
		closes := f.counts().closes
		if f.counts().resumes == 0 {
			t.Errorf("no resume; status %+v", r.p.Status())
		}
		if !slices.Contains(closes, 4000) {
			t.Errorf("closed with %v, want %d", closes, 4000)
		}
		time.Sleep(5 * time.Minute)
		f.say("500", "again")
		synctest.Wait()
		r.end(t)
		if got := in.texts(); !slices.Contains(got, "again") {
			t.Errorf("accepted %q", got)
		}
		if f.identifies() != 1 {
			t.Errorf("%d identifies", f.identifies())
		}
	})
}

// TestInvalidSession: d true resumes, d false begins anew; in both cases after 1 to 5 seconds.
func TestInvalidSession(t *testing.T) {
	for name, tc := range map[string]struct {
		resumable  bool
		identifies int
	}{"to be resumed": {true, 1}, "gone": {false, 2}} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
				in := newTestInbox()
				in.places = places("500")
				r := run(t, open(), in)
				time.Sleep(time.Minute)
				f.cut()
				f.hostile = func(ctx context.Context, n int, c *websocket.Conn) bool {
					if n != 1 {
						return false
					}
					_ = write(ctx, c, obj{"op": 10, "d": obj{"heartbeat_interval": 41250}})
					_, _, _ = c.Read(ctx)
					_ = write(ctx, c, obj{"op": 9, "d": tc.resumable})
					_, _, _ = c.Read(ctx)
					return true
				}
				f.say("500", "meanwhile")
				time.Sleep(30 * time.Second)
				in.await(t, "meanwhile")
				r.end(t)
				if f.identifies() != tc.identifies {
					t.Errorf("%d identifies, want %d", f.identifies(), tc.identifies)
				}
			})
		})
	}
}

// TestReplayAndDisorder: what comes twice or out of order is handed in all the same; the hub
// recognises it, and the sequence never goes back.
func TestReplayAndDisorder(t *testing.T) {
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		in := newTestInbox()
		r := run(t, open(), in)
		time.Sleep(time.Minute)
		message := func(id, text string) obj {
			return obj{"id": id, "channel_id": "500", "type": 0, "content": text, "author": obj{"id": "4001", "username": "ann"}}
		}
		for _, p := range []obj{
			{"op": 0, "t": kindMessage, "s": 5, "d": message("5005", "five")},
			{"op": 0, "t": kindMessage, "s": 3, "d": message("5003", "three")},
			{"op": 0, "t": kindMessage, "s": 5, "d": message("5005", "five")},
			{"op": 0, "t": kindMessage, "s": 4, "d": message("5004", "four")},
			{"op": 0, "t": kindMessage, "d": message("5006", "without a sequence")},
		} {
			f.order(t.Context(), p, 0)
		}
		time.Sleep(time.Second)
		in.await(t, "five", "three", "four", "without a sequence")
		if s := seqOf(t, in); s.Seq != 5 {
			t.Errorf("stored sequence %d, want 5", s.Seq)
		}
		r.end(t)
	})
}

// TestHugePayload: one that is too large to look at is passed over, once, and what follows is read.
// An interaction's token is not kept with its beginning.
func TestHugePayload(t *testing.T) {
	f, in := newFakeDiscord(), newTestInbox()
	f.serve(t)
	r := run(t, f.testBot(t, nil, t.Output(), quickWaits), in)
	defer r.end(t)
	f.await(t, "an identify", func() bool { return f.current != nil })
	f.dispatch("GUILD_CREATE", obj{"id": "77", "name": strings.Repeat("x", maxPayload)})
	f.dispatch(kindInteraction, obj{"id": "78", "token": "tok-canary", "zz": strings.Repeat("x", maxPayload)})
	f.say("500", "after")
	in.await(t, "after")
	in.mu.Lock()
	defer in.mu.Unlock()
	kept := 0
	for _, b := range in.batches {
		for _, u := range b.Undecodable {
			kept++
			if len(u.Raw) > gateway.HeadBytes {
				t.Errorf("%d bytes in quarantine", len(u.Raw))
			}
			if strings.Contains(string(u.Raw), "tok-canary") {
				t.Error("an interaction's token is in quarantine")
			}
		}
	}
	if conns := f.counts().conns; kept != 2 || conns != 1 {
		t.Errorf("%d in quarantine, %d connections; want 2 and 1", kept, conns)
	}
}

// TestFullQueue: when more comes than the disk takes, Discord keeps the rest.
func TestFullQueue(t *testing.T) {
	const lines = maxQueued + 500
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		in := newTestInbox()
		open0 := make(chan struct{})
		in.judge = func(ctx context.Context, b platforms.Batch) error {
			if len(b.Events) == 0 {
				return nil
			}
			select {
			case <-open0:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		r := run(t, open(), in)
		time.Sleep(time.Minute)
		want := numbered(lines)
		for _, text := range want {
			f.say("500", text)
		}
		time.Sleep(10 * time.Second)
		if s := r.p.Status(); s.State != platforms.Degraded {
			t.Errorf("status %+v, want %s", s, platforms.Degraded)
		}
		close(open0)
		time.Sleep(time.Minute)
		in.await(t, want...)
		if n := in.count(); n != lines {
			t.Errorf("%d events handed in, want %d: nothing twice", n, lines)
		}
		r.end(t)
		if f.identifies() != 1 {
			t.Errorf("%d identifies, want 1", f.identifies())
		}
	})
}

// TestHeartbeatsDoNotWaitForTheDisk: however long a write takes, the connection lives.
func TestHeartbeatsDoNotWaitForTheDisk(t *testing.T) {
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		in := newTestInbox()
		in.judge = func(ctx context.Context, b platforms.Batch) error {
			if len(b.Events) > 0 {
				backoff.Pause(ctx, time.Hour)
			}
			return ctx.Err()
		}
		r := run(t, open(), in)
		time.Sleep(time.Minute)
		f.say("500", "one")
		f.say("500", "two")
		time.Sleep(3 * time.Hour)
		in.await(t, "one", "two")
		r.end(t)
		if n := f.counts().conns; n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

func TestHeartbeatsCarryTheSequence(t *testing.T) {
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		r := run(t, open(), newTestInbox())
		time.Sleep(time.Hour)
		r.end(t)
		// One within the first interval, then one per interval.
		if n, want := f.counts().beats, int(time.Hour/f.interval); n < want-1 || n > want+1 {
			t.Errorf("%d heartbeats in an hour, want about %d", n, want)
		}
	})
}
