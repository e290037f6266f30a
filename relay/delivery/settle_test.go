package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// inPlay runs f with a lane over entries with those texts, and a socket that settles nothing yet.
func inPlay(t *testing.T, o Options, f func(t *testing.T, m *memory, l *Lane, s *socket), texts ...string) {
	t.Helper()
	entries(t, o, func(t *testing.T, m *memory, l *Lane) {
		f(t, m, l, begin(t, l, &socket{slow: make(chan struct{})}))
	}, texts...)
}

func TestAnEntryIsSettledBeforeItIsPushed(t *testing.T) { // invariants 3 and 10
	inPlay(t, Options{Window: 5}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		wantPushed(t, s, 1)
		mustAck(t, s, 2, false) // it is not in flight
		mustAck(t, s, 3, false)
		s.hurry()
		wantPushed(t, s, 1, 2, 3)
		lose(t, s)
	}, "hi", "whole", "hi")
}

// TestTheEndOfASettlingSessionIsLaidToNobody, and the next one begins with the same entry.
func TestTheEndOfASettlingSessionIsLaidToNobody(t *testing.T) { // invariant 10
	inPlay(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		synctest.Wait()
		began := time.Now()
		lose(t, s)
		if d := time.Since(began); d > 0 {
			t.Errorf("the pump ended after %v, want at once", d)
		}
		if n, ok := deathsOf(m.buffered(), ids(1)[0]); n != 0 || !ok {
			t.Errorf("%d deaths, there %v; want none, and there", n, ok)
		}
		next := connect(t, l)
		wantPushed(t, next, 1)
		lose(t, next)
	}, "whole")
}

func TestAFlipEndsTheWait(t *testing.T) { // invariants 7 and 10
	for name, window := range map[string]int{"one at a time": 1, "several": 3} {
		t.Run(name, func(t *testing.T) {
			inPlay(t, Options{Window: window}, func(t *testing.T, m *memory, l *Lane, s *socket) {
				synctest.Wait()
				began := time.Now()
				if err := s.pump.Flip(t.Context()); err != nil || time.Since(began) > 0 {
					t.Errorf("Flip = %v after %v, want nil at once", err, time.Since(began))
				}
				wantPushed(t, s)
				s.hurry()
				wantPushed(t, s)
				s.pump.Resume()
				wantPushed(t, s, []uint64{1, 2}[:min(window, 2)]...)
				lose(t, s)
			}, "whole", "hi")
		})
	}
}

// TestWhatIsOfferedIsSettledToo: the entry comes from memory, and after a flip from the buffer.
func TestWhatIsOfferedIsSettledToo(t *testing.T) {
	inPlay(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		synctest.Wait()
		id := m.append("whole")
		l.Appended(m.buffered()[0])
		synctest.Wait()
		must.Succeed(t, s.pump.Flip(t.Context()))
		s.hurry()
		s.pump.Resume()
		wantPushed(t, s, id.Seq)
		mustAck(t, s, id.Seq, true)
		wantLeft(t, m)
		lose(t, s)
	})
}

// TestWhatLeavesTheBufferMeanwhileIsNotPushed.
func TestWhatLeavesTheBufferMeanwhileIsNotPushed(t *testing.T) {
	inPlay(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		synctest.Wait()
		must.Succeed(t, m.Bury(t.Context(), "i1", ids(1)[0], store.DeadRemoved))
		s.hurry()
		wantPushed(t, s, 2)
		lose(t, s)
	}, "whole", "hi")
}

// TestARepeatedEntryIsSettledAnew: until it is, an acknowledgement of its first push counts, at once.
func TestARepeatedEntryIsSettledAnew(t *testing.T) {
	for name, acked := range map[string]bool{"acknowledged late": true, "not acknowledged": false} {
		t.Run(name, func(t *testing.T) {
			inPlay(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
				s.hurry()
				wantPushed(t, s, 1)
				must.Succeed(t, s.pump.Flip(t.Context()))
				s.dawdle()
				s.pump.Resume()
				wantPushed(t, s, 1)
				want := []uint64{1, 1}
				if acked {
					mustAck(t, s, 1, true)
					want = []uint64{1, 2}
				}
				s.hurry()
				wantPushed(t, s, want...)
				lose(t, s)
			}, "whole", "hi")
		})
	}
}

// TestAFullWindowSettlesNothing, though the pump looks behind it for forwards.
func TestAFullWindowSettlesNothing(t *testing.T) { // invariant 9
	inPlay(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		wantPushed(t, s, 1)
		l.Appended(m.buffered()[1])
		id := m.append("forward")
		l.Appended(m.buffered()[2])
		synctest.Wait()
		if n := s.settled(); n != 0 {
			t.Errorf("asked %d times to settle behind a full window", n)
		}
		s.hurry()
		mustAck(t, s, 1, true)
		wantPushed(t, s, 1, 2, id.Seq)
		lose(t, s)
	}, "hi", "whole")
}

func TestWhatCannotBeSettledIsBuried(t *testing.T) { // invariant 8
	inPlay(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		s.hurry()
		wantPushed(t, s, 3)
		for _, id := range ids(1, 2) {
			if why, _ := m.reason(id); why != store.DeadPoison {
				t.Errorf("%s: %q, want poison", id, why)
			}
		}
		lose(t, s)
	}, "unfit", "unsettling", "whole")
}

// TestAForwardPastItsTimeIsSettled: it holds its event too, which is pushed when the forward is good for nothing.
func TestAForwardPastItsTimeIsSettled(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		m.mu.Lock()
		m.entries[0].Event = &relay.Event{Text: "whole"}
		m.mu.Unlock()
		s := connect(t, l)
		synctest.Wait()
		if n := s.settled(); n != 0 {
			t.Errorf("a forward was settled %d times", n)
		}
		wantForms(t, s, 1)
		lose(t, s)
		time.Sleep(forwardLasts)
		next := connect(t, l)
		synctest.Wait()
		if n := next.settled(); n != 1 {
			t.Errorf("settled %d times, want once", n)
		}
		wantForms(t, next)
		wantPushed(t, next, 1)
		lose(t, next)
	}, "forward")
}
