package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

const slashKind = "discord.interaction_token"

// moody is a responder whose answers fail as told, and which notices two at once.
type moody struct {
	responder
	answer  func(a relay.Send) error                     // nil: all succeed
	discard func(context.Context) error                  // nil: all succeed
	unknown error                                        // why the network does not say whether a placeholder stands
	under   atomic.Int32                                 // answers under way
	crowded atomic.Bool                                  // there were two
	pause   func(ctx context.Context, c relay.MessageID) // while one is under way; nil: none
}

func newMoodyRig(t *testing.T) (*rig, *moody) {
	t.Helper()
	p := &moody{}
	return newRigWith(t, func(l *local.Loopback) platforms.Bot { p.Loopback = l; return p }), p
}

func (p *moody) Respond(ctx context.Context, c platforms.Capability, a relay.Send, first bool) (relay.Result, error) {
	if p.under.Add(1) > 1 {
		p.crowded.Store(true)
	}
	defer p.under.Add(-1)
	if p.pause != nil {
		p.pause(ctx, a.ReplyTo)
	}
	res, err := p.responder.Respond(ctx, c, a, first)
	if p.answer != nil {
		if err := p.answer(a); err != nil {
			return relay.Result{}, err
		}
	}
	return res, err
}

func (p *moody) Thinking(ctx context.Context, c platforms.Capability) (bool, error) {
	if p.unknown != nil {
		return false, p.unknown
	}
	return p.responder.Thinking(ctx, c)
}

func (p *moody) Discard(ctx context.Context, c platforms.Capability) error {
	if p.discard != nil {
		if err := p.discard(ctx); err != nil {
			return err
		}
	}
	return p.responder.Discard(ctx, c)
}

// Issue 9, point 13: what stands, or may stand, was replaced by the next answer.
func TestAnAnswerIsReplacedOnlyIfNothingWasSent(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		again bool // the next answer is a first one
	}{
		"part two failed":          {&relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out: only the first 1 of 2", MessageIDs: []relay.MessageID{"m1"}}, false},
		"the outcome is unknown":   {&relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}, false},
		"an error nobody knows":    {errors.New("?"), false},
		"a part stands, they say":  {&relay.ActionError{Outcome: relay.NotSent, Public: "400", MessageIDs: []relay.MessageID{"m1"}}, false},
		"refused":                  {&relay.ActionError{Outcome: relay.NotSent, Public: "400 Bad Request"}, true},
		"not sent before the time": {&relay.ActionError{Outcome: relay.NotSent, Public: "network: rate limited"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newMoodyRig(t)
			r.enroll("home", "ann")
			g := r.dial("home")
			r.command("ann", "i1", "/status", "tok1", true)
			g.inbound()
			p.answer = func(a relay.Send) error {
				if a.Content == "one" {
					return tc.err
				}
				return nil
			}
			g.do(relay.Request{Action: relay.Send{Chat: "@ann", Content: "one", ReplyTo: "i1"}})
			g.do(relay.Request{Action: relay.Send{Chat: "@ann", Content: "two", ReplyTo: "i1"}})
			want := []string{"respond tok1 first=true: one", fmt.Sprintf("respond tok1 first=%v: two", tc.again)}
			if diff := cmp.Diff(want, p.log()); diff != "" {
				t.Errorf("the platform did (-want +got):\n%s", diff)
			}
		})
	}
}

// Two answers at once both replaced the placeholder.
func TestOneOfManyAnswersAtOnceIsTheFirst(t *testing.T) {
	r, p := newMoodyRig(t)
	p.pause = func(ctx context.Context, _ relay.MessageID) {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
	r.enroll("home", "ann")
	r.command("ann", "i1", "/status", "tok1", true)
	home := r.dial("home")
	home.inbound()
	key := relay.SessionKey("agent:main:loopback:dm:@ann")
	var all []relay.Request
	for n := range 20 {
		id := relay.RequestID(fmt.Sprint(n))
		text := string(id)
		all = append(all,
			relay.Request{ID: "a" + id, Action: relay.Send{Chat: "@ann", Content: text, ReplyTo: "i1"}},
			relay.Request{ID: "b" + id, Platform: local.LoopbackID, Action: relay.Send{Chat: "@ann", Content: text, ReplyTo: "i1"}},
			relay.Request{ID: "c" + id, Platform: local.LoopbackID, Bot: local.Handle, Action: relay.Send{Chat: "@ann", Content: text, ReplyTo: "i1"}},
			relay.Request{ID: "d" + id, Action: relay.FollowUp{Session: key, Kind: slashKind, Content: text}},
		)
	}
	for _, req := range all {
		home.send(wire.Outbound{Request: req})
	}
	for range all {
		if res, ok := home.read().(wire.OutboundResult); !ok || res.Err != nil {
			t.Fatalf("result = %+v", res)
		}
	}
	firsts := slices.DeleteFunc(p.log(), func(s string) bool { return !strings.Contains(s, "first=true") })
	if len(firsts) != 1 || len(p.log()) != len(all) || p.crowded.Load() {
		t.Errorf("%d of %d answers are first ones: %q; two at once: %v", len(firsts), len(p.log()), firsts, p.crowded.Load())
	}
}

// Sessions do not wait for one another's lines, as after a takeover: the capability itself has one
// answer under way, and the next one finds the next capability.
func TestAnswersOfTwoSessionsShareNoCapability(t *testing.T) {
	r, p := newMoodyRig(t)
	r.enroll("home")
	p.pause = func(context.Context, relay.MessageID) { <-time.After(time.Millisecond) }
	for n := range 3 {
		id := fmt.Sprint("i", n)
		r.give(capability.Record{Event: relay.EventID(id), Instance: "home", Chat: "c", Placeholder: true}, "tok"+id)
	}
	h := r.hub
	var wg sync.WaitGroup
	ordinary := atomic.Int32{}
	for n := range 5 {
		wg.Go(func() {
			_, done, err := h.out.Capabilities.Respond(t.Context(), "home", p, relay.Send{Chat: "c", Content: fmt.Sprint(n)})
			if err != nil {
				t.Errorf("respond: %v", err)
			}
			if !done {
				ordinary.Add(1)
			}
		})
	}
	wg.Wait()
	used := map[string]bool{}
	for _, did := range p.log() {
		used[did[:len("respond toki0 first=true")]] = true
	}
	if len(p.log()) != 3 || len(used) != 3 || ordinary.Load() != 2 {
		t.Errorf("the platform did %q, and %d answers were ordinary; want each capability once and 2", p.log(), ordinary.Load())
	}
}

func TestADuplicateTakesNoCapabilityAway(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	b := slash(r.bot, "ann", "@ann", "i1", "/status", "tok1")
	b.Events = append(b.Events, b.Events[0]) // the second one is a duplicate, and takes nothing from the first
	must.Succeed(t, r.hub.in.Inbox(r.bot).Accept(t.Context(), b))
	if !r.holds("home", "i1") {
		t.Error("a duplicate took the capability away")
	}
	if len(p.log()) != 0 {
		t.Errorf("the platform did %q", p.log())
	}
}

func TestACapabilityIsNoneWhenTheCommitFails(t *testing.T) {
	p := &responder{}
	r := newRigOn(t, store.Options{MaxSize: 1 << 20}, func(l *local.Loopback) platforms.Bot { p.Loopback = l; return p })
	r.enroll("home", "ann")
	b := slash(r.bot, "ann", "@ann", "i1", strings.Repeat("x", 16<<10), "tok1")
	in := r.hub.in.Inbox(r.bot)
	filler, err := b.Events[0], error(nil)
	for n := 0; err == nil && n < 1000; n++ {
		filler.ID = relay.EventID(fmt.Sprint("filler", n))
		err = in.Accept(t.Context(), platforms.Batch{Events: []relay.Event{filler}})
	}
	if err = in.Accept(t.Context(), b); !errors.Is(err, store.ErrFull) {
		t.Fatalf("Accept = %v, want a full disk", err)
	}
	if r.holds("home", "i1") {
		t.Error("the capability of an event that was not stored is kept")
	}
	if len(p.log()) != 0 {
		t.Errorf("the platform did %q: the event comes again", p.log())
	}
}

// Issue 9, point 14: of 150 strangers' commands 58 said "thinking…" for a quarter of an hour.
func TestEveryStrangersPlaceholderGoes(t *testing.T) {
	r, p := newMoodyRig(t)
	open := make(chan struct{})
	p.discard = func(ctx context.Context) error {
		select {
		case <-open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	const strangers = 300
	for n := range strangers {
		r.command("eve", fmt.Sprint("i", n), "/status", fmt.Sprint("tok", n), true)
	}
	close(open)
	wait.Until(t, "all to be discarded", func() bool { return len(p.log()) == strangers })
	if left := r.hub.Counters()["placeholder_left"]; left != 0 {
		t.Errorf("%d placeholders were left", left)
	}
}

// What makes room for others is discarded: its answer will not find it. What is answered, or may be, is left alone.
func TestThePlaceholderOfAForgottenCapabilityGoes(t *testing.T) {
	t.Parallel()
	r, p := newMoodyRig(t)
	r.enroll("home", "ann")
	for n := range 256 {
		r.give(capability.Record{
			Event: relay.EventID(fmt.Sprint("old", n)), Instance: "home", Placeholder: true,
			ExpiresAt: time.Now().Add(10*time.Minute + time.Duration(n)*time.Millisecond),
		}, fmt.Sprint("old", n))
	}
	p.answer = func(a relay.Send) error {
		if a.ReplyTo == "old2" {
			return &relay.ActionError{Outcome: relay.MaybeSent, Public: "timed out"}
		}
		return nil
	}
	for _, id := range []relay.MessageID{"old1", "old2"} {
		if _, done, _ := r.hub.out.Capabilities.Respond(t.Context(), "home", p, relay.Send{ReplyTo: id}); !done {
			t.Fatalf("%s was not answered through", id)
		}
	}
	answered := len(p.log())
	for n := range 4 {
		r.command("ann", fmt.Sprint("i", n), "/status", fmt.Sprint("tok", n), true)
	}
	wait.Until(t, "the oldest to go", func() bool { return len(p.log()) == answered+2 })
	got := p.log()[answered:]
	slices.Sort(got)
	if want := []string{"discard old0", "discard old3"}; !slices.Equal(got, want) {
		t.Errorf("the platform did %q, want %q", got, want)
	}
}

// TestAStopLeavesAnswersToTheNextProcess: what nobody has answered stays, for whoever answers after the restart.
func TestAStopLeavesAnswersToTheNextProcess(t *testing.T) {
	r, p := newResponderRig(t)
	r.enroll("home", "ann")
	g := r.dial("home")
	r.command("ann", "i1", "/ask", "tok1", true)
	r.command("ann", "i2", "/ask", "tok2", true)
	g.inbound()
	if res := g.do(relay.Request{Action: relay.Send{Chat: "@ann", Content: "yes", ReplyTo: "i1"}}); res.Err != nil {
		t.Fatal(res.Err)
	}
	r.hub.Farewell(t.Context())
	if want := []string{"respond tok1 first=true: yes"}; !slices.Equal(p.log(), want) || !r.holds("home", "i2") {
		t.Errorf("the platform did %q, want %q, and holds i2: %v", p.log(), want, r.holds("home", "i2"))
	}
}
