package discord

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

func TestEventsArriveInOrder(t *testing.T) {
	f, in := newFakeDiscord(), newTestInbox()
	f.serve(t)
	r := run(t, f.testBot(t, nil, t.Output(), quickWaits), in)
	defer r.end(t)
	f.await(t, "an identify", func() bool { return len(f.identify) == 1 && f.current != nil })
	want := numbered(50)
	for _, text := range want {
		f.say("500", text)
	}
	in.await(t, want...)
	if s := r.p.Status(); s.State != platforms.Connected || s.Name != "pi" || s.LastEventAt.IsZero() {
		t.Errorf("status %+v", s)
	}
	if in.overlaps != 0 {
		t.Errorf("%d batches were handed in at once", in.overlaps)
	}
}

// TestRestartResumes: invariants 1 and 2. A process that ends and begins again within Discord's
// window loses nothing, repeats nothing, and begins no new session.
func TestRestartResumes(t *testing.T) {
	f, in := newFakeDiscord(), newTestInbox()
	f.serve(t)
	r := run(t, f.testBot(t, nil, t.Output(), quickWaits), in)
	f.await(t, "an identify", func() bool { return f.current != nil })
	f.say("500", "one")
	in.await(t, "one")
	f.dispatch("TYPING_START", obj{}) // needs no inbox; the stored sequence moves past it at the end
	f.await(t, "the dispatch", func() bool { return f.current.conn.sent == f.current.seq })
	r.end(t)
	f.await(t, "a close", func() bool { return len(f.closes) > 0 })
	if closes := f.counts().closes; slices.Contains(closes, 1000) || slices.Contains(closes, 1001) {
		t.Errorf("closed with %v", closes)
	}

	f.say("500", "two")
	f.say("500", "three")
	p := f.testBot(t, nil, t.Output(), quickWaits)
	r = run(t, p, in)
	in.await(t, "one", "two", "three")
	r.end(t)
	if c := f.counts(); len(c.identify) != 1 || c.resumes != 1 {
		t.Errorf("%d identifies and %d resumes, want 1 and 1", len(c.identify), c.resumes)
	}
	if n := in.count(); n != 3 {
		t.Errorf("%d events handed in, want 3: nothing twice", n)
	}
	if s := p.Status(); s.Name != "pi" {
		t.Errorf("name after a resume is %q: READY does not come again", s.Name)
	}
}

// TestSessionIsKeptAtOnce: a bot that is stopped the moment its session begins resumes it.
func TestSessionIsKeptAtOnce(t *testing.T) {
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		in := newTestInbox()
		in.judge = func(ctx context.Context, b platforms.Batch) error { // a disk that is slow to begin with
			backoff.Pause(ctx, 3*time.Second)
			return ctx.Err()
		}
		r := run(t, open(), in)
		time.Sleep(time.Second)
		f.say("500", "one")
		time.Sleep(time.Second)
		r.end(t)
		in.judge = nil
		r = run(t, open(), in)
		time.Sleep(time.Minute)
		in.await(t, "one")
		r.end(t)
		if c := f.counts(); len(c.identify) != 1 || c.resumes != 1 {
			t.Errorf("%d identifies and %d resumes, want 1 and 1", len(c.identify), c.resumes)
		}
	})
}

// TestSequenceWaitsForTheDisk: invariant 1. What was received but not accepted comes again.
func TestSequenceWaitsForTheDisk(t *testing.T) {
	f, in := newFakeDiscord(), newTestInbox()
	f.serve(t)
	refuse := func(ctx context.Context, b platforms.Batch) error {
		if len(b.Events) == 0 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	in.judge = refuse
	r := run(t, f.testBot(t, nil, t.Output(), quickWaits), in)
	awaitState(t, r.p, platforms.Connected, "")
	f.say("500", "one")
	f.dispatch("TYPING_START", obj{})
	f.await(t, "the dispatches", func() bool { return f.current.conn.sent == f.current.seq })
	r.end(t)
	if s := seqOf(t, in); s.ID != "session-1" || s.Seq != 1 {
		t.Fatalf("stored %+v, want session-1 at 1", s)
	}
	in.judge = nil
	r = run(t, f.testBot(t, nil, t.Output(), quickWaits), in)
	in.await(t, "one")
	r.end(t)
}

// TestIdleWritesNothing: dispatches that are nothing for anybody cost no write, and are not replayed
// after an orderly end.
func TestIdleWritesNothing(t *testing.T) {
	f, in := newFakeDiscord(), newTestInbox()
	f.serve(t)
	r := run(t, f.testBot(t, nil, t.Output(), quickWaits), in)
	f.await(t, "an identify", func() bool { return f.current != nil })
	f.say("500", "one")
	in.await(t, "one")
	in.mu.Lock()
	before := in.writes
	in.mu.Unlock()
	for range 1000 {
		f.dispatch("TYPING_START", obj{})
	}
	f.write("500", obj{"id": testBotID, "username": "pi", "bot": true}, "my own")
	for r.p.memory.read().Session.Seq < 1003 && backoff.Pause(t.Context(), time.Millisecond) {
	}
	r.end(t)
	in.mu.Lock()
	after := in.writes
	in.mu.Unlock()
	if after != before+1 { // at the end
		t.Errorf("%d writes for nothing", after-before)
	}
	if s := seqOf(t, in); s.Seq != 1003 {
		t.Errorf("stored sequence %d, want it behind what was nothing", s.Seq)
	}
}

// TestInteractionsAreAcknowledgedAtOnce: invariant 2, while every write to the disk stalls. By the bubble's
// clock, which no busy machine holds up.
func TestInteractionsAreAcknowledgedAtOnce(t *testing.T) {
	const stall, presses, most = 5 * time.Second, 200, 100 * time.Millisecond
	simulated(t, func(t *testing.T, f *fakeDiscord, open func() *Bot) {
		in := newTestInbox()
		var stalls atomic.Int32
		in.judge = func(ctx context.Context, b platforms.Batch) error {
			stalls.Add(1)
			if backoff.Pause(ctx, stall) {
				return nil
			}
			return ctx.Err()
		}
		r := run(t, open(), in)
		time.Sleep(time.Minute)
		stalls.Store(0)
		sent := map[string]time.Time{}
		for i := range presses {
			at := time.Now()
			sent[f.press(fmt.Sprint("tok-", i))] = at
			time.Sleep(2 * time.Millisecond)
		}
		var took []time.Duration
		for range presses {
			select {
			case c := <-f.answered:
				took = append(took, c.at.Sub(sent[c.id]))
			case <-time.After(stall):
				t.Fatalf("%d of %d interactions acknowledged while the disk stalls", len(took), presses)
			}
		}
		slices.Sort(took)
		if p99 := took[presses*99/100]; p99 > most {
			t.Errorf("p99 of the acknowledgement is %s, want %s", p99, most)
		}
		if n := stalls.Load(); n != 1 {
			t.Errorf("the disk was asked %d times by then, want once: it stalls", n)
		}
		r.end(t)
	})
}

// TestTokensStayOutOfEvents: an interaction's token is a capability, and nothing else carries it.
func TestTokensStayOutOfEvents(t *testing.T) {
	const token = "aW50ZXJhY3Rpb24tdG9rZW4-canary"
	f, in := newFakeDiscord(), newTestInbox()
	f.serve(t)
	var log platformtest.Log
	r := run(t, f.testBot(t, nil, &log, quickWaits), in)
	f.await(t, "an identify", func() bool { return f.current != nil })
	f.press(token)
	f.dispatch(kindInteraction, obj{"id": "1", "token": token, "type": "nonsense"})
	f.say("500", "after")
	in.await(t, "/ask", "after")
	r.end(t)
	capabilities := 0
	for _, b := range in.batches {
		for _, c := range b.Capabilities {
			capabilities++
			if c.Token.RevealString() != token {
				t.Error("the capability has another token")
			}
		}
		for _, u := range b.Undecodable {
			if strings.Contains(string(u.Raw), token) || strings.Contains(u.Err.Error(), token) {
				t.Error("the quarantine has the token")
			}
		}
		if strings.Contains(string(b.Cursor), token) || strings.Contains(string(b.Cursor), testSecret) {
			t.Error("the state has a token")
		}
	}
	if capabilities != 1 {
		t.Errorf("%d capabilities, want 1", capabilities)
	}
	if strings.Contains(log.String(), token) || strings.Contains(log.String(), testSecret) {
		t.Error("the log has a token")
	}
}

// TestStoreTrouble: while nothing can be stored the bot is degraded, and nothing is lost.
func TestStoreTrouble(t *testing.T) {
	f, in := newFakeDiscord(), newTestInbox()
	f.serve(t)
	var broken atomic.Bool
	in.judge = func(context.Context, platforms.Batch) error {
		if broken.Load() {
			return errStall
		}
		return nil
	}
	r := run(t, f.testBot(t, nil, t.Output(), quickWaits), in)
	defer r.end(t)
	f.await(t, "an identify", func() bool { return f.current != nil })
	f.say("500", "one")
	in.await(t, "one")
	broken.Store(true)
	f.say("500", "two")
	awaitState(t, r.p, platforms.Degraded, "cannot be stored")
	broken.Store(false)
	in.await(t, "one", "two")
	awaitState(t, r.p, platforms.Connected, "")
}

// awaitState waits until the status says so. A status can only be looked at, not waited for.
func awaitState(t testing.TB, p *Bot, want platforms.State, reason string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		s := p.Status()
		if s.State == want && strings.Contains(s.Reason, reason) {
			return
		}
		if time.Now().After(end) || !backoff.Pause(t.Context(), time.Millisecond) {
			t.Fatalf("status %+v, want %s with %q", s, want, reason)
		}
	}
}

func TestFinalCloses(t *testing.T) {
	for name, tc := range map[string]struct {
		code        int
		credentials bool
		state       platforms.State
		reason      string
	}{
		"token":    {4004, true, platforms.BadCredentials, "token"},
		"shard":    {4010, false, platforms.Stopped, "4010"},
		"sharding": {4011, false, platforms.Stopped, "sharding"},
		"version":  {4012, false, platforms.Stopped, "4012"},
		"intents":  {4013, false, platforms.Stopped, "intents"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeDiscord()
			f.closeWith = websocketCode(tc.code)
			f.serve(t)
			p := f.testBot(t, nil, io.Discard, quickWaits)
			err := p.Run(t.Context(), newTestInbox())
			if err == nil || errors.Is(err, relay.ErrBadCredentials) != tc.credentials {
				t.Errorf("Run = %v", err)
			}
			if s := p.Status(); s.State != tc.state || !strings.Contains(s.Reason, tc.reason) {
				t.Errorf("status %+v, want %s with %q", s, tc.state, tc.reason)
			}
			if f.identifies() != 1 {
				t.Errorf("%d identifies, want 1", f.identifies())
			}
		})
	}
}

func TestRevokedTokenOverREST(t *testing.T) {
	f := newFakeDiscord()
	f.revoked = true
	f.serve(t)
	if err := f.testBot(t, nil, io.Discard, quickWaits).Run(t.Context(), newTestInbox()); !errors.Is(err, relay.ErrBadCredentials) {
		t.Errorf("Run = %v, want %v", err, relay.ErrBadCredentials)
	}
}

// TestAPageIsNoVerdict: what a proxy, or a page to log in at, says in Discord's place says nothing of the token.
func TestAPageIsNoVerdict(t *testing.T) {
	for name, page := range map[string]string{"html": "<html>log in</html>", "json": `{"error":"log in"}`, "a string": `"log in"`, "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			f := newFakeDiscord()
			var asked atomic.Int32
			f.rest = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/gateway/bot") || asked.Add(1) > 2 {
					return false
				}
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, page)
				return true
			}
			f.serve(t)
			r := run(t, f.testBot(t, nil, io.Discard, quickWaits), newTestInbox())
			defer r.end(t)
			awaitState(t, r.p, platforms.Connected, "")
		})
	}
}

// TestMissingIntent: the bot says which one, and goes on by itself once it is enabled.
func TestMissingIntent(t *testing.T) {
	f, in := newFakeDiscord(), newTestInbox()
	f.closeWith = 4014
	f.serve(t)
	r := run(t, f.testBot(t, nil, t.Output(), quickWaits), in)
	defer r.end(t)
	awaitState(t, r.p, platforms.Degraded, "MESSAGE CONTENT")
	for end := time.Now().Add(time.Minute); r.p.Status().RetryAt.IsZero(); {
		if time.Now().After(end) || !backoff.Pause(t.Context(), time.Millisecond) {
			t.Fatalf("status %+v, want the time of the next try", r.p.Status())
		}
	}
	f.mu.Lock()
	f.closeWith = 0
	f.mu.Unlock()
	awaitState(t, r.p, platforms.Connected, "")
}
