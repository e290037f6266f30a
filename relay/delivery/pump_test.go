package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// socket is what stands behind a pump in a test: the list of what was pushed, and an outbox that
// can be full.
type socket struct {
	pump *Pump
	end  context.CancelCauseFunc
	run  chan error // holds Run's result once it returned

	mu     sync.Mutex
	pushed []relay.BufferID
	at     []time.Time                    // of each of pushed: when its push began
	as     []bool                         // of each of pushed: it went as a forward
	forms  map[relay.BufferID]string      // "forward", or nothing
	wrote  map[relay.BufferID][]time.Time // when each forward was written
	holds  bool                           // what is pushed stays in the outbox
	held   []heldForward                  // the forwards that stay there
	deaf   bool                           // it gives no sign of life
	taken  []store.About
	full   chan struct{} // not nil: no room until it is closed
	wide   bool          // fronts the strange bot too
	still  bool          // takes only what is urgent
	slow   chan struct{} // not nil: nothing is settled until it is closed
	asked  int           // how often something was to be settled
	given  []string      // of each of pushed: its text, a line for each message
	alone  bool          // it joins nothing
	mute   bool          // it does not type
}

// connect starts a pump of l that fronts all bots but the strange one. The test ends it with end.
func connect(t testing.TB, l *Lane) *socket {
	t.Helper()
	return connectHolding(t, l, false)
}

// connectHolding is connect; holds: forwards stay in the outbox from the first on.
func connectHolding(t testing.TB, l *Lane, holds bool) *socket {
	t.Helper()
	return begin(t, l, &socket{holds: holds})
}

// begin is connect with a socket that is there already.
func begin(t testing.TB, l *Lane, s *socket) *socket {
	t.Helper()
	s.run = make(chan error, 1)
	s.pump = l.NewPump(Outlet{
		Push: s.push, Settle: s.settle, Join: s.join, Where: where, Takes: s.takes, Answers: s.answers, Taken: s.take,
		Types: func() bool { return !s.mute },
	})
	ctx, end := context.WithCancelCause(t.Context())
	s.end = end
	go func() { s.run <- s.pump.Run(ctx) }() // synctest waits for it
	return s
}

func (s *socket) push(ctx context.Context, e store.Entry, left func(bool)) error {
	begun := time.Now()
	s.mu.Lock()
	full := s.full
	s.mu.Unlock()
	if full != nil {
		select {
		case <-full:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for line := range strings.SplitSeq(string(e.Frame), "\n") {
		switch kind := kindOf(line); kind {
		case "poison":
			return fmt.Errorf("no JSON for it: %w", ErrPoison)
		case "panic":
			panic(kind)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pushed, s.given = append(s.pushed, e.Buffer), append(s.given, string(e.Frame))
	s.at, s.as = append(s.at, begun), append(s.as, e.Forward != nil)
	delete(s.forms, e.Buffer)
	if e.Forward == nil {
		return nil
	}
	if s.forms == nil {
		s.forms = make(map[relay.BufferID]string)
	}
	s.forms[e.Buffer] = string(e.Forward.Frame)
	s.held = append(s.held, heldForward{e.Buffer, left})
	if !s.holds {
		s.leaveLocked(true)
	}
	return nil
}

// settle waits while the socket is slow. The event's text becomes the frame.
func (s *socket) settle(ctx context.Context, e *store.Entry) error {
	s.mu.Lock()
	slow := s.slow
	s.asked++
	s.mu.Unlock()
	if slow != nil {
		select {
		case <-slow:
		case <-ctx.Done():
		}
	}
	for line := range strings.SplitSeq(e.Event.Text, "\n") {
		switch kind := kindOf(line); kind {
		case "unfit":
			return errors.New("no frame for it")
		case "unsettling":
			panic(kind)
		}
	}
	e.Frame = []byte(e.Event.Text)
	return nil
}

// join joins what one person said in one chat, but for commands.
func (s *socket) join(e *store.Entry, next store.Entry) bool {
	a, b := textOf(*e), textOf(next)
	if s.alone || e.About.Chat == "" || e.About.Bot != next.About.Bot || e.About.Chat != next.About.Chat || e.About.User != next.About.User {
		return false
	}
	if slices.ContainsFunc([]string{a, b}, func(s string) bool { return kindOf(s) == "command" || kindOf(s) == "urgent" }) {
		return false
	}
	e.Event, e.Frame = &relay.Event{Text: a + "\n" + b}, nil
	return true
}

func textOf(e store.Entry) string {
	if e.Event != nil {
		return e.Event.Text
	}
	return string(e.Frame)
}

func where(_ context.Context, e store.Entry) (Conversation, Manner) {
	how := map[string]Manner{"urgent": Urgent, "program": Patient, "following": Following, "wake": Interrupting}[kindOf(textOf(e))]
	return Conversation{Chat: relay.Chat{Bot: e.About.Bot, ID: e.About.Chat}}, how
}

// dawdle has nothing be settled until hurry is called.
func (s *socket) dawdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow == nil {
		s.slow = make(chan struct{})
	}
}

func (s *socket) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow != nil {
		close(s.slow)
		s.slow = nil
	}
}

// settled is how often something was to be settled.
func (s *socket) settled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// heldForward is a forward in the outbox.
type heldForward struct {
	id   relay.BufferID
	left func(bool)
}

// leave ends the wait of what is in the outbox: it is written, or dropped.
func (s *socket) leave(written bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(written)
}

func (s *socket) leaveLocked(written bool) {
	if s.wrote == nil {
		s.wrote = make(map[relay.BufferID][]time.Time)
	}
	for _, h := range s.held {
		if written {
			s.wrote[h.id] = append(s.wrote[h.id], time.Now())
		}
		h.left(written)
	}
	s.held = nil
}

func (s *socket) answers(context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.deaf
}

func (s *socket) take(_ context.Context, of store.About) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, of)
}

func (s *socket) takes(ctx context.Context, e store.Entry) bool {
	_, how := where(ctx, e)
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.wide || e.About.Bot != strange) && (how == Urgent || !s.still)
}

// widen has the session front the strange bot too.
func (s *socket) widen() { s.turns(func() { s.wide = true }) }

// hush has the session take only what is urgent, or all again.
func (s *socket) hush(still bool) { s.turns(func() { s.still = still }) }

// turns changes what the session takes.
func (s *socket) turns(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.pump.Anew()
}

func (s *socket) block() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full == nil {
		s.full = make(chan struct{})
	}
}

func (s *socket) unblock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		close(s.full)
		s.full = nil
	}
}

func (s *socket) seen() []relay.BufferID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]relay.BufferID{}, s.pushed...)
}

// texts are those of what was pushed.
func (s *socket) texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.given)
}

func ids(seqs ...uint64) []relay.BufferID {
	out := make([]relay.BufferID, 0, len(seqs))
	for _, n := range seqs {
		out = append(out, relay.BufferID{Epoch: testEpoch, Seq: n})
	}
	return out
}

// wantPushed checks what a socket was given so far, once nothing moves any more.
func wantPushed(t *testing.T, s *socket, want ...uint64) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(ids(want...), s.seen()); diff != "" {
		t.Errorf("pushed (-want +got):\n%s", diff)
	}
}

func mustAck(t *testing.T, s *socket, seq uint64, want bool) {
	t.Helper()
	got, err := s.pump.Ack(t.Context(), relay.BufferID{Epoch: testEpoch, Seq: seq})
	if err != nil || got != want {
		t.Errorf("Ack(%d) = %v, %v, want %v, nil", seq, got, err, want)
	}
}

// bubble runs f with a lane over a buffer of n entries, in virtual time.
func bubble(t *testing.T, n int, o Options, f func(t *testing.T, m *memory, l *Lane)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		for range n {
			m.append("hello")
		}
		f(t, m, NewLane("i1", m, o))
	})
}

func TestEntryLeavesBufferOnlyWhenAcknowledged(t *testing.T) { // invariant 1
	bubble(t, 2, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1)
		if got := len(idsOf(m.buffered())); got != 2 {
			t.Errorf("entries after the push = %d, want 2", got)
		}
		mustAck(t, s, 1, true)
		if diff := cmp.Diff(ids(2), idsOf(m.buffered())); diff != "" {
			t.Errorf("entries after the ack (-want +got):\n%s", diff)
		}
		s.end(nil)
	})
}

func TestNewPumpWaitsForThePreviousOne(t *testing.T) { // invariant 2
	bubble(t, 1, Options{}, func(t *testing.T, m *memory, l *Lane) {
		old := connect(t, l)
		wantPushed(t, old, 1)
		next := connect(t, l)
		wantPushed(t, next)
		old.end(nil)
		wantPushed(t, next, 1)
		next.end(nil)
	})
}

func TestPumpThatNeverGotItsTurnEnds(t *testing.T) { // invariant 2
	bubble(t, 1, Options{}, func(t *testing.T, m *memory, l *Lane) {
		first := connect(t, l)
		wantPushed(t, first, 1)
		second := connect(t, l)
		synctest.Wait()
		second.end(nil)
		if err := <-second.run; err != nil {
			t.Errorf("Run of the waiting pump = %v, want nil", err)
		}
		mustAck(t, first, 1, true)
		first.end(nil)
	})
}

func TestOrderAndGrowth(t *testing.T) { // invariant 3
	bubble(t, 1, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1)
		m.append("later")
		l.Grown(0)
		wantPushed(t, s, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 1, 2)
		mustAck(t, s, 2, true)
		for range 3 {
			m.append("more")
		}
		l.Grown(0)
		wantPushed(t, s, 1, 2, 3)
		s.end(nil)
	})
}

func TestAckOfUnpushedEntryIsRefused(t *testing.T) { // invariant 4
	bubble(t, 3, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1)
		mustAck(t, s, 2, false)
		if got, err := s.pump.Ack(t.Context(), relay.BufferID{Epoch: 8, Seq: 1}); got || err != nil {
			t.Errorf("Ack of another epoch = %v, %v, want false, nil", got, err)
		}
		mustAck(t, s, 1, true)
		mustAck(t, s, 1, false)
		wantPushed(t, s, 1, 2)
		s.end(nil)
	})
}

func TestAckOnReplacedPumpIsRefused(t *testing.T) { // invariant 4
	bubble(t, 1, Options{}, func(t *testing.T, m *memory, l *Lane) {
		old := connect(t, l)
		wantPushed(t, old, 1)
		old.end(nil)
		next := connect(t, l)
		wantPushed(t, next, 1)
		mustAck(t, old, 1, false)
		mustAck(t, next, 1, true)
		next.end(nil)
	})
}

func TestAckAfterShutdownStillCounts(t *testing.T) {
	bubble(t, 1, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1)
		s.end(fmt.Errorf("serve: %w", ErrShutdown))
		<-s.run
		mustAck(t, s, 1, true)
		if got := idsOf(m.buffered()); len(got) != 0 {
			t.Errorf("entries = %v, want none", got)
		}
	})
}

func TestNothingIsSentAgainOnATimer(t *testing.T) { // invariant 5
	bubble(t, 2, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1)
		time.Sleep(72 * time.Hour) // virtual
		wantPushed(t, s, 1)
		s.end(nil)
	})
}

func TestIdlePumpDoesNotRead(t *testing.T) {
	bubble(t, 0, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		synctest.Wait()
		before := m.reads
		time.Sleep(72 * time.Hour) // virtual
		if m.reads != before {
			t.Errorf("reads while idle = %d, want 0", m.reads-before)
		}
		s.end(nil)
	})
}

// slowDrop holds every deletion until it is let through.
type slowDrop struct {
	*memory
	through chan struct{}
}

func (b *slowDrop) Ack(ctx context.Context, i relay.InstanceID, ids ...relay.BufferID) error {
	<-b.through
	return b.memory.Ack(ctx, i, ids...)
}

func TestNextEntryWaitsForTheDeletion(t *testing.T) { // invariant 6
	synctest.Test(t, func(t *testing.T) {
		b := &slowDrop{newMemory(), make(chan struct{})}
		b.append("one")
		b.append("two")
		l := NewLane("i1", b, Options{})
		s := connect(t, l)
		wantPushed(t, s, 1)
		acked := make(chan bool, 1)
		go func() {
			counted, _ := s.pump.Ack(t.Context(), ids(1)[0])
			acked <- counted
		}()
		wantPushed(t, s, 1)
		mustAck(t, s, 1, false) // the same again, while the first is under way

		// A takeover now must not see the entry whose deletion is on its way to the disk.
		s.end(nil)
		<-s.run
		next := connect(t, l)
		wantPushed(t, next)
		b.through <- struct{}{}
		if !<-acked {
			t.Error("the acknowledgement did not count")
		}
		wantPushed(t, next, 2)
		if got, _ := deathsOf(b.buffered(), ids(2)[0]); got != 0 {
			t.Errorf("deaths = %d, want 0", got)
		}
		next.end(nil)
	})
}

// TestNextEntryWaitsForTaken: what is noted of the one before decides what the next brings.
func TestNextEntryWaitsForTaken(t *testing.T) { // invariant 6
	bubble(t, 2, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := &socket{run: make(chan error, 1)}
		noted := make(chan struct{})
		s.pump = l.NewPump(Outlet{Push: s.push, Taken: func(context.Context, store.About) { <-noted }})
		ctx, end := context.WithCancel(t.Context())
		go func() { s.run <- s.pump.Run(ctx) }()
		wantPushed(t, s, 1)
		acked := make(chan bool, 1)
		go func() {
			counted, _ := s.pump.Ack(t.Context(), ids(1)[0])
			acked <- counted
		}()
		wantPushed(t, s, 1)
		wantLeft(t, m, 2)
		close(noted)
		if !<-acked {
			t.Error("the acknowledgement did not count")
		}
		wantPushed(t, s, 1, 2)
		end()
		<-s.run
	})
}

func TestWindow(t *testing.T) { // invariant 6
	bubble(t, 6, Options{Window: 3}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1, 2, 3)
		mustAck(t, s, 2, true)
		wantPushed(t, s, 1, 2, 3, 4)
		mustAck(t, s, 5, false)
		mustAck(t, s, 4, true)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 1, 2, 3, 4, 5, 6)
		s.end(errors.New("lost"))
		<-s.run
		for id, want := range map[uint64]int{3: 1, 5: 0, 6: 0} {
			if got, _ := deathsOf(m.buffered(), ids(id)[0]); got != want {
				t.Errorf("deaths of %d = %d, want %d", id, got, want)
			}
		}
	})
}

func TestFlipWaitsForThePushInProgress(t *testing.T) { // invariant 7
	bubble(t, 2, Options{Window: 2}, func(t *testing.T, m *memory, l *Lane) {
		s := begin(t, l, &socket{full: make(chan struct{})})
		synctest.Wait()
		flipped := make(chan error, 1)
		go func() { flipped <- s.pump.Flip(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-flipped:
			t.Fatalf("Flip returned %v before the push did", err)
		default:
		}
		s.unblock()
		if err := <-flipped; err != nil {
			t.Fatalf("Flip = %v, want nil", err)
		}
		before := s.seen()
		m.append("asleep")
		l.Grown(0)
		time.Sleep(time.Hour) // virtual
		if diff := cmp.Diff(before, s.seen()); diff != "" {
			t.Errorf("pushed while flipped (-want +got):\n%s", diff)
		}
		mustAck(t, s, 1, true) // an ack for an entry in flight counts after the flip
		s.pump.Resume()
		wantPushed(t, s, 1, 2, 3)
		s.end(nil)
	})
}

// slowRead is a buffer whose second read takes as long as the test wants.
type slowRead struct {
	*memory
	reads int
	begun chan struct{} // closed when it begins
	end   chan struct{} // closed to let it end
}

func (b *slowRead) Next(ctx context.Context, i relay.InstanceID, after uint64) (store.Entry, bool, error) {
	if b.reads++; b.reads == 2 {
		close(b.begun)
		<-b.end
	}
	return b.memory.Next(ctx, i, after)
}

// TestAckWhileTheEntryGoesOutAgain: an acknowledgement comes in the moment in which the pump, resumed,
// is about to push the entry again. Nothing may come in between its look at the entry and its taking it.
func TestAckWhileTheEntryGoesOutAgain(t *testing.T) { // invariants 3 and 4
	b := &slowRead{memory: newMemory(), begun: make(chan struct{}), end: make(chan struct{})}
	id := b.append("hello")
	l := NewLane("i1", b, Options{})
	acked, pushed := make(chan struct{}), make(chan struct{}, 1)
	var pushes int
	p := l.NewPump(Outlet{Push: func(context.Context, store.Entry, func(bool)) error {
		if pushes++; pushes == 1 {
			pushed <- struct{}{}
			return nil
		}
		for waits := false; !waits; runtime.Gosched() { // the outbox is full, unless Ack waits for this
			select {
			case <-acked:
				return nil
			default:
			}
			l.mu.Lock()
			waits = l.waiters > 0
			l.mu.Unlock()
		}
		return nil
	}})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	<-pushed
	must.Succeed(t, p.Flip(ctx))
	p.Resume()
	<-b.begun

	// Both wait for the lock, Ack first. After a millisecond it is handed to who has waited longest
	// instead of who is quickest, so the pump gets it between any two holds of Ack's.
	const long = 3 * time.Millisecond
	l.mu.Lock()
	go func() {
		defer close(acked)
		if counted, err := p.Ack(ctx, id); !counted || err != nil {
			t.Errorf("Ack = %v, %v, want true, nil", counted, err)
		}
	}()
	time.Sleep(long)
	close(b.end)
	time.Sleep(long)
	l.mu.Unlock()
	l.mu.Lock() // quicker than those who are being woken, who take it amiss
	time.Sleep(long)
	l.mu.Unlock()

	<-acked
	end()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// TestWhatIsGoneAfterAFlipHoldsNothingUp: the entry in flight became a dead letter meanwhile, and the
// gateway, which has slept, does not acknowledge it.
func TestWhatIsGoneAfterAFlipHoldsNothingUp(t *testing.T) {
	bubble(t, 1, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1)
		must.Succeed(t, s.pump.Flip(t.Context()))
		must.Succeed(t, m.Bury(t.Context(), "i1", ids(1)[0], store.DeadOverflow))
		m.append("second")
		l.Grown(2)
		s.pump.Resume()
		wantPushed(t, s, 1, 2)
		mustAck(t, s, 2, true)
		s.end(nil)
	})
}

func TestFlipEndsWithItsContext(t *testing.T) {
	bubble(t, 1, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		s.block()
		m.append("second")
		synctest.Wait()
		s.unblock()
		wantPushed(t, s, 1)
		s.block()
		mustAck(t, s, 1, true)
		synctest.Wait() // the second entry is being pushed
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.pump.Flip(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flip = %v, want the deadline", err)
		}
		s.end(nil)
	})
}

func TestPoisonIsBuried(t *testing.T) { // invariant 8
	for _, text := range []string{"poison", "panic"} {
		t.Run(text, func(t *testing.T) {
			bubble(t, 0, Options{}, func(t *testing.T, m *memory, l *Lane) {
				bad := m.append(text)
				m.append("good")
				s := connect(t, l)
				wantPushed(t, s, 2)
				if got := m.dead[bad]; got != store.DeadPoison {
					t.Errorf("dead reason = %q, want %q", got, store.DeadPoison)
				}
				mustAck(t, s, 1, false)
				s.end(nil)
			})
		})
	}
}

func TestWhatCountsAsADeath(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(t *testing.T, s *socket)
		cause  error
		want   int
	}{
		"the socket is lost":            {cause: errors.New("connection lost"), want: 1},
		"a takeover":                    {cause: errors.New("closed 4000 replaced"), want: 1},
		"the connector stops":           {cause: fmt.Errorf("serve: %w", ErrShutdown), want: 0},
		"after going idle":              {before: func(t *testing.T, s *socket) { _ = s.pump.Flip(t.Context()) }, want: 0},
		"after coming back from idle":   {before: func(t *testing.T, s *socket) { _ = s.pump.Flip(t.Context()); s.pump.Resume() }, want: 1},
		"after an acknowledgement":      {before: func(t *testing.T, s *socket) { mustAck(t, s, 1, true) }, want: 0},
		"the store refused a deletion":  {before: failedAck, want: 0},
		"an acknowledgement of another": {before: func(t *testing.T, s *socket) { mustAck(t, s, 9, false) }, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, Options{}, func(t *testing.T, m *memory, l *Lane) {
				s := connect(t, l)
				wantPushed(t, s, 1)
				if tc.before != nil {
					tc.before(t, s)
				}
				s.end(tc.cause)
				if err := <-s.run; err != nil {
					t.Errorf("Run = %v, want nil", err)
				}
				if got, _ := deathsOf(m.buffered(), ids(1)[0]); got != tc.want {
					t.Errorf("deaths = %d, want %d", got, tc.want)
				}
			})
		})
	}
}

func failedAck(t *testing.T, s *socket) {
	s.pump.lane.buf.(*memory).fail(fault{call: "drop"})
	if counted, err := s.pump.Ack(t.Context(), ids(1)[0]); counted || !errors.Is(err, errDisk) {
		t.Errorf("Ack = %v, %v, want false, %v", counted, err, errDisk)
	}
}

func TestFiveDeathsBuryAnEntry(t *testing.T) {
	bubble(t, 2, Options{}, func(t *testing.T, m *memory, l *Lane) {
		for range maxDeaths {
			s := connect(t, l)
			wantPushed(t, s, 1)
			s.end(errors.New("lost"))
			<-s.run
		}
		if got := m.dead[ids(1)[0]]; got != store.DeadDeaths {
			t.Errorf("dead reason = %q, want %q", got, store.DeadDeaths)
		}
		s := connect(t, l)
		wantPushed(t, s, 2)
		s.end(nil)
	})
}

func TestStoreTroubleEndsThePump(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		f    fault
	}{
		"reading":  {"good", fault{call: "next"}},
		"burying":  {"poison", fault{call: "bury"}},
		"counting": {"good", fault{call: "death"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 0, Options{}, func(t *testing.T, m *memory, l *Lane) {
				m.append(tc.text)
				m.fail(tc.f)
				s := connect(t, l)
				synctest.Wait()
				s.end(errors.New("lost")) // only "counting" is still running
				if err := <-s.run; !errors.Is(err, errDisk) {
					t.Errorf("Run = %v, want %v", err, errDisk)
				}
			})
		})
	}
}

func TestPushErrorEndsThePumpAndKeepsTheEntry(t *testing.T) {
	bubble(t, 1, Options{}, func(t *testing.T, m *memory, l *Lane) {
		full := errors.New("the outbox is gone")
		p := l.NewPump(Outlet{Push: func(context.Context, store.Entry, func(bool)) error { return full }})
		if err := p.Run(t.Context()); !errors.Is(err, full) {
			t.Errorf("Run = %v, want %v", err, full)
		}
		if got := idsOf(m.buffered()); len(got) != 1 {
			t.Errorf("entries = %v, want one", got)
		}
		s := connect(t, l)
		wantPushed(t, s, 1)
		s.end(nil)
	})
}
