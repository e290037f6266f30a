package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// platform is a hub whose actions take a second each, and which remembers what it did.
type platform struct {
	hub

	mu      sync.Mutex
	did     []string
	running map[relay.ChatID]int
	most    int           // actions at once
	open    chan struct{} // not nil: the limiter is closed until it is
}

func newPlatform() *platform {
	p := &platform{running: make(map[relay.ChatID]int)}
	p.do = func(ctx context.Context, r relay.Request) (relay.Result, error) {
		p.begin(r)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running[r.Action.Target()]--
		return relay.Result{MessageID: relay.MessageID("m" + r.ID)}, ctx.Err()
	}
	p.waitOpen = func(ctx context.Context, _ relay.Request) error {
		if p.open == nil {
			return nil
		}
		select {
		case <-p.open:
			return nil
		case <-ctx.Done():
			return &relay.ActionError{Outcome: relay.NotSent, Public: "network: rate limited", RetryAfter: 40 * time.Second}
		}
	}
	return p
}

func (p *platform) begin(r relay.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.did = append(p.did, string(r.ID))
	p.running[r.Action.Target()]++
	total := 0
	for chat, n := range p.running {
		total += n
		if n > 1 {
			p.did = append(p.did, fmt.Sprintf("%d at once in %s", n, chat))
		}
	}
	p.most = max(p.most, total)
}

func (p *platform) done() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.did, " ")
}

func TestOneAtATimePerChatInOrder(t *testing.T) { // invariant 3
	p := newPlatform()
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		for n := range 10 {
			r.ask(relay.RequestID(fmt.Sprint(n)), say("hi"))
		}
		for n := range 10 {
			id := relay.RequestID(fmt.Sprint(n))
			r.succeeded(id, relay.MessageID("m"+id))
		}
		if got, want := p.done(), "0 1 2 3 4 5 6 7 8 9"; got != want {
			t.Errorf("did %s, want %s", got, want)
		}
	})
}

func TestChatsInParallel(t *testing.T) {
	p := newPlatform()
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		start := time.Now()
		for n := range 3 * maxParallel {
			r.ask(relay.RequestID(fmt.Sprint(n)), relay.Send{Chat: relay.ChatID(fmt.Sprint(n))})
		}
		for range 3 * maxParallel {
			r.next()
		}
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("took %v, want 3s", got)
		}
		if p.most != maxParallel {
			t.Errorf("%d at once, want %d", p.most, maxParallel)
		}
	})
}

// TestALineIsTheHandlersChat: however the frames spell it.
func TestALineIsTheHandlersChat(t *testing.T) {
	p := newPlatform()
	p.line = func(relay.Request) relay.Chat { return relay.Chat{ID: "one"} }
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		start := time.Now()
		for _, req := range []relay.Request{
			{ID: "1", Action: say("untagged")},
			{ID: "2", Platform: "telegram", Bot: "42", Action: say("tagged")},
			{ID: "3", Action: relay.FollowUp{Session: "s", Kind: "k", Content: "hi"}},
		} {
			r.send(wire.Outbound{Request: req})
		}
		for _, id := range []relay.RequestID{"1", "2", "3"} {
			r.succeeded(id, relay.MessageID("m"+id))
		}
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("took %v, want one after the other: 3s", got)
		}
	})
}

// TestAFollowUpClearsNoLine: it says nothing about what may be done in the chat.
func TestAFollowUpClearsNoLine(t *testing.T) {
	p := newPlatform()
	p.line = func(relay.Request) relay.Chat { return relay.Chat{ID: "one"} }
	p.may = func(r relay.Request) error {
		if _, ok := r.Action.(relay.FollowUp); ok {
			return nil
		}
		return relay.Declined("telegram")
	}
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		r.ask("1", relay.FollowUp{Session: "s", Kind: "k", Content: "hi"})
		synctest.Wait()
		r.ask("2", relay.Edit{Chat: "c", Message: "a"})
		r.ask("3", relay.Edit{Chat: "c", Message: "a"})
		r.succeeded("1", "m1")
		for _, id := range []relay.RequestID{"2", "3"} {
			r.refused(id, relay.NotSent, "declined")
		}
		r.wantCount(count.SessionReplaced, 0)
	})
}

func TestNewerEditReplacesWaitingOne(t *testing.T) {
	p := newPlatform()
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		p.open = make(chan struct{})
		r.greet()
		edit := func(id, message string) {
			r.ask(relay.RequestID(id), relay.Edit{Chat: "c", Message: relay.MessageID(message), Content: id})
		}
		edit("1", "a")
		edit("2", "b")
		r.ask("3", say("hi"))
		r.nothing()
		edit("4", "a") // takes the place of 1, also while the limiter is waited for
		r.succeeded("1", "a")
		edit("5", "b")
		r.succeeded("2", "b")
		edit("6", "a")
		r.succeeded("4", "a")
		close(p.open)
		r.succeeded("6", "m6")
		r.succeeded("5", "m5")
		r.succeeded("3", "m3")
		if got, want := p.done(), "6 5 3"; got != want {
			t.Errorf("did %s, want %s", got, want)
		}
		r.wantCount(count.SessionReplaced, 3)
	})
}

// TestNothingIsReplacedInAForeignChat: to be replaced is answered with success, which would be a
// lie where nothing may be done.
func TestNothingIsReplacedInAForeignChat(t *testing.T) {
	h := &hub{
		may: func(relay.Request) error { return relay.Declined("telegram") },
		do: func(context.Context, relay.Request) (relay.Result, error) {
			return relay.Result{}, relay.Declined("telegram")
		},
	}
	for name, a := range map[string]relay.Action{"edits": relay.Edit{Chat: "c", Message: "a"}, "typing": relay.Typing{Chat: "c"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
				r.greet()
				var burst []byte
				for n := range 20 {
					line, err := wire.Encode(wire.Outbound{Request: relay.Request{ID: relay.RequestID(fmt.Sprint(n)), Action: a}})
					must.Succeed(t, err)
					burst = append(burst, line...)
				}
				r.write(burst)
				for n := range 20 {
					r.refused(relay.RequestID(fmt.Sprint(n)), relay.NotSent, "declined")
				}
				r.wantCount(count.SessionReplaced, 0)
			})
		})
	}
}

// TestAForeignMessagesEditIsNotReplaced: in a chat in which the gateway may write, but not edit what
// others said.
func TestAForeignMessagesEditIsNotReplaced(t *testing.T) {
	foreign := func(r relay.Request) error {
		if e, ok := r.Action.(relay.Edit); ok && e.Message == "theirs" {
			return relay.Declined("telegram")
		}
		return nil
	}
	p := newPlatform()
	p.may = foreign
	do := p.hub.do
	p.do = func(ctx context.Context, r relay.Request) (relay.Result, error) {
		if err := foreign(r); err != nil {
			return relay.Result{}, err
		}
		return do(ctx, r)
	}
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		p.open = make(chan struct{})
		r.greet()
		r.ask("1", relay.Edit{Chat: "c", Message: "ours"})
		for _, id := range []relay.RequestID{"2", "3", "4"} {
			r.ask(id, relay.Edit{Chat: "c", Message: "theirs"})
		}
		r.nothing()
		close(p.open)
		r.succeeded("1", "m1")
		for _, id := range []relay.RequestID{"2", "3", "4"} {
			r.refused(id, relay.NotSent, "declined")
		}
		r.wantCount(count.SessionReplaced, 0)
	})
}

// TestABurstOfEditsBecomesOne: also when it comes before the chat is cleared.
func TestABurstOfEditsBecomesOne(t *testing.T) {
	p := newPlatform()
	var asked chan struct{}
	p.may = func(relay.Request) error { <-asked; return nil }
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		asked = make(chan struct{})
		r.greet()
		for _, id := range []relay.RequestID{"1", "2", "3"} {
			r.ask(id, relay.Edit{Chat: "c", Message: "a"})
		}
		r.ask("4", say("hi"))
		r.ask("5", relay.Edit{Chat: "c", Message: "a"})
		r.nothing()
		close(asked)
		for _, id := range []relay.RequestID{"1", "2", "3"} {
			r.succeeded(id, "a")
		}
		r.succeeded("5", "m5")
		r.succeeded("4", "m4")
		if got, want := p.done(), "5 4"; got != want {
			t.Errorf("did %s, want %s", got, want)
		}
		r.wantCount(count.SessionReplaced, 3)
	})
}

func TestRunningEditIsNotReplaced(t *testing.T) {
	p := newPlatform()
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		r.ask("1", relay.Edit{Chat: "c", Message: "a"})
		synctest.Wait()
		r.ask("2", relay.Edit{Chat: "c", Message: "a"})
		r.succeeded("1", "m1")
		r.succeeded("2", "m2")
	})
}

func TestTypingIsCoalesced(t *testing.T) {
	p := newPlatform()
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		r.ask("1", say("hi"))
		synctest.Wait()
		r.ask("2", relay.Typing{Chat: "c"})
		r.ask("3", relay.Typing{Chat: "c", Meta: relay.Metadata{ThreadID: "t"}})
		r.nothing()
		r.ask("4", relay.Typing{Chat: "c"})
		r.succeeded("2", "")
		for _, id := range []relay.RequestID{"1", "4", "3"} {
			r.succeeded(id, relay.MessageID("m"+id))
		}
	})
}

func TestDraftsAreCoalesced(t *testing.T) {
	p := newPlatform()
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		r.ask("1", say("hi"))
		synctest.Wait()
		r.ask("2", relay.Draft{Chat: "c", DraftID: 7, Content: "a"})
		r.ask("3", relay.Draft{Chat: "c", DraftID: 8, Content: "a"}) // of another answer
		r.ask("4", relay.Draft{Chat: "c", DraftID: 9, Final: true})  // which is no draft any more
		r.nothing()
		r.ask("5", relay.Draft{Chat: "c", DraftID: 7, Content: "a b"})
		r.ask("6", relay.Draft{Chat: "c", DraftID: 9, Content: "late"})
		r.succeeded("2", "")
		for _, id := range []relay.RequestID{"1", "5", "3", "4", "6"} {
			r.succeeded(id, relay.MessageID("m"+id))
		}
	})
}

func TestTooManyWait(t *testing.T) {
	p := newPlatform()
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		p.open = make(chan struct{})
		r.greet()
		for n := range maxWaiting {
			r.ask(relay.RequestID(fmt.Sprint(n)), say("hi"))
		}
		r.nothing()
		r.ask("straw", say("hi"))
		r.refused("straw", relay.NotSent, "network: busy")
		r.wantCount(count.SessionBusy, 1)
		r.ask("other", relay.Send{Chat: "d"})
		r.refused("other", relay.NotSent, "network: busy")
		// They are carried out one a second; at 25 s the rest is answered.
		close(p.open)
		answered, late := 0, 0
		for range maxWaiting {
			if res, ok := r.next().(wire.OutboundResult); ok && res.Err == nil {
				answered++
			} else if ok {
				late++
			}
		}
		if answered < 20 || late != maxWaiting-answered {
			t.Errorf("%d answered and %d late, want about 24 and the rest", answered, late)
		}
	})
}

func TestDeadlineWhileTheLimiterIsClosed(t *testing.T) { // invariant 2
	p := newPlatform()
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		p.open = make(chan struct{})
		r.greet()
		start := time.Now()
		r.ask("1", say("hi"))
		r.ask("2", say("hi"))
		if e := r.refused("1", relay.NotSent, "network"); e.RetryAfter != 40*time.Second {
			t.Errorf("retry after %v, want 40s", e.RetryAfter)
		}
		r.refused("2", relay.NotSent, "network")
		if got := time.Since(start); got > actionTime {
			t.Errorf("answered after %v, want at most %v", got, actionTime)
		}
		if got := p.done(); got != "" {
			t.Errorf("did %s, want nothing", got)
		}
	})
}

func TestHandlerThatIgnoresItsContext(t *testing.T) { // invariants 1 to 3
	var release chan struct{} // made in the bubble
	var did []relay.RequestID
	h := &hub{do: func(_ context.Context, r relay.Request) (relay.Result, error) {
		did = append(did, r.ID)
		if r.ID == "1" {
			<-release
		}
		return relay.Result{MessageID: "late"}, nil
	}}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		release = make(chan struct{})
		r.greet()
		start := time.Now()
		r.ask("1", say("stuck"))
		r.ask("2", say("behind it"))
		first := r.refusedEither("1", "2")
		second := r.refusedEither("1", "2")
		if got := time.Since(start); got != actionTime {
			t.Errorf("answered after %v, want %v", got, actionTime)
		}
		if first.Outcome == second.Outcome {
			t.Errorf("outcomes %v and %v, want one of each", first.Outcome, second.Outcome)
		}
		r.wantCount(count.SessionLate, 2)
		release <- struct{}{}
		r.nothing() // what came of it is not told any more
		r.ask("1", say("stuck again"))
		synctest.Wait()
		r.ask("3", say("behind it"))
		time.Sleep(time.Second)
		r.nothing()
		r.s.End(CodeReplaced, "replaced")
		time.Sleep(time.Second)
		select {
		case err := <-r.run:
			t.Fatalf("Run = %v while an action runs", err)
		default:
		}
		close(release)
		<-r.run
		if want := []relay.RequestID{"1", "1", "3"}; !slices.Equal(did, want) {
			t.Errorf("did %v, want %v", did, want)
		}
	})
}

// refusedEither is the next result, of one of two requests: "1" was begun, "2" was not.
func (r *rig) refusedEither(begun, waiting relay.RequestID) *relay.ActionError {
	r.t.Helper()
	res, ok := r.next().(wire.OutboundResult)
	if !ok || res.Err == nil || res.ID != begun && res.ID != waiting {
		r.t.Fatalf("got %#v, want a refusal of %s or %s", res, begun, waiting)
	}
	if want := res.ID == begun; (res.Err.Outcome == relay.MaybeSent) != want {
		r.t.Errorf("outcome of %s = %v", res.ID, res.Err.Outcome)
	}
	return res.Err
}

func TestErrorsOfActions(t *testing.T) {
	for name, tc := range map[string]struct {
		err     error
		outcome relay.Outcome
		words   string
	}{
		"declined":         {relay.Declined("telegram"), relay.NotSent, "telegram egress declined"},
		"wrapped":          {fmt.Errorf("do: %w", relay.Busy()), relay.NotSent, "network: busy"},
		"a deadline":       {fmt.Errorf("do: %w", context.DeadlineExceeded), relay.MaybeSent, "timed out"},
		"something unsaid": {errors.New("token 123:abc is bad"), relay.MaybeSent, "timed out"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hub{do: func(context.Context, relay.Request) (relay.Result, error) { return relay.Result{}, tc.err }}
			inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
				r.greet()
				r.ask("1", say("hi"))
				if e := r.refused("1", tc.outcome, tc.words); strings.Contains(e.Public, "token") {
					t.Errorf("the gateway was told %q", e.Public)
				}
			})
		})
	}
}

func TestALimiterThatFailsSaysNotSent(t *testing.T) {
	h := &hub{waitOpen: func(context.Context, relay.Request) error { return errors.New("no such gate") }}
	inBubble(t, h, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		r.ask("1", say("hi"))
		r.refused("1", relay.NotSent, "network")
	})
}

func TestUnknownOpIsAnsweredAtOnce(t *testing.T) {
	p := newPlatform()
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		r.ask("1", say("takes a second"))
		r.write([]byte(`{"type":"outbound","requestId":"2","action":{"op":"dance","chat_id":"c"}}` + "\n"))
		r.refused("2", relay.NotSent, "unsupported op dance")
		r.write([]byte(`{"type":"outbound","requestId":"3","action":{"op":"send","chat_id":"c"}}` + "\n"))
		r.refused("3", relay.NotSent, "invalid send: content is missing or not text")
		r.write([]byte(`{"type":"outbound","requestId":"4"}` + "\n"))
		r.refused("4", relay.NotSent, "invalid action: action is missing or not an object")
		r.succeeded("1", "m1")
		if got := p.done(); got != "1" {
			t.Errorf("did %s, want 1", got)
		}
	})
}

func TestActionsOutliveTheSocket(t *testing.T) {
	p := newPlatform()
	inBubble(t, &p.hub, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		for n := range 3 {
			r.ask(relay.RequestID(fmt.Sprint(n)), say("hi"))
		}
		synctest.Wait()
		_ = r.wire.Close()
		if err := <-r.run; !errors.Is(err, ErrLost) {
			t.Errorf("Run = %v, want %v", err, ErrLost)
		}
		if got, want := p.done(), "0 1 2"; got != want {
			t.Errorf("did %s, want %s", got, want)
		}
	})
}
