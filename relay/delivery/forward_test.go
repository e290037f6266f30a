package delivery

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// entries runs f with a lane over entries with these texts, in virtual time.
func entries(t *testing.T, o Options, f func(t *testing.T, m *memory, l *Lane), texts ...string) {
	t.Helper()
	bubble(t, 0, o, func(t *testing.T, m *memory, l *Lane) {
		for _, text := range texts {
			m.append(text)
		}
		f(t, m, l)
	})
}

// wantLeft checks what is in the buffer, once nothing moves any more.
func wantLeft(t *testing.T, m *memory, want ...uint64) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(ids(want...), idsOf(m.buffered())); diff != "" {
		t.Errorf("left in the buffer (-want +got):\n%s", diff)
	}
}

// wantForms checks which of the pushed entries went as forwards the last time.
func wantForms(t *testing.T, s *socket, seqs ...uint64) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.forms) != len(seqs) {
		t.Errorf("as forwards went %v, want %v", s.forms, seqs)
	}
	for _, id := range ids(seqs...) {
		if s.forms[id] != "forward" {
			t.Errorf("%s went as an event", id)
		}
	}
}

func lose(t *testing.T, s *socket) {
	t.Helper()
	s.end(errors.New("lost"))
	if err := <-s.run; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// TestAForwardHoldsNobodyUp: what is behind it is pushed with it, and what waits for the window keeps waiting.
func TestAForwardHoldsNobodyUp(t *testing.T) { // invariants 3 and 9
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1, 2, 3)
		wantForms(t, s, 1, 2)
		l.Appended(store.Entry{Buffer: m.append("forward"), Forward: forwardOf("forward"), About: store.About{Bot: loopback}})
		wantPushed(t, s, 1, 2, 3, 4) // though the window is full
		l.Appended(store.Entry{Buffer: m.append("forward"), Forward: forwardOf("forward"), About: store.About{Bot: loopback}})
		wantPushed(t, s, 1, 2, 3, 4, 5)
		l.Appended(store.Entry{Buffer: m.append("hi"), About: store.About{Bot: loopback}})
		l.Appended(store.Entry{Buffer: m.append("forward"), Forward: forwardOf("forward"), About: store.About{Bot: loopback}})
		wantPushed(t, s, 1, 2, 3, 4, 5) // in its order: 6 waits for the window, and 7 for 6
		mustAck(t, s, 3, true)
		wantPushed(t, s, 1, 2, 3, 4, 5, 6, 7)
		wantLeft(t, m, 4, 5, 6, 7) // what was pushed before 3 is taken with it
		mustAck(t, s, 6, true)
		wantLeft(t, m, 7)
		mustAck(t, s, 7, true)
		wantLeft(t, m)
		mustAck(t, s, 5, false)
		if got := len(s.taken); got != 7 {
			t.Errorf("%d taken, want 7", got)
		}
		lose(t, s)
	}, "forward", "forward", "hi")
}

// TestAForwardIsTakenAfterAWhile: by a session that lives on after it was written, and only then.
func TestAForwardIsTakenAfterAWhile(t *testing.T) { // invariant 9
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1)
		time.Sleep(forwardLife - time.Second)
		wantLeft(t, m, 1)
		time.Sleep(2 * time.Second)
		wantLeft(t, m)
		mustAck(t, s, 1, false)

		s.hold(true) // the socket takes nothing
		m.append("forward")
		l.Grown(0)
		wantPushed(t, s, 1, 2)
		time.Sleep(time.Hour / 5)
		wantLeft(t, m, 2)
		s.leave(true)
		time.Sleep(forwardLife - time.Second)
		s.mu.Lock()
		s.deaf = true
		s.mu.Unlock()
		time.Sleep(time.Hour)
		wantLeft(t, m, 2)
		s.mu.Lock()
		s.deaf = false
		s.mu.Unlock()
		time.Sleep(forwardLife + time.Second)
		wantLeft(t, m)

		m.fail(fault{call: "drop"})
		s.hold(false)
		m.append("forward")
		l.Grown(0)
		time.Sleep(forwardLife + time.Second)
		wantLeft(t, m, 3)
		time.Sleep(forwardLife + time.Second)
		wantLeft(t, m)
		wantPushed(t, s, 1, 2, 3)
		lose(t, s)
	}, "forward")
}

func (s *socket) hold(holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = holds
}

// TestAForwardIsWrittenTwiceAtMost: the second time it is taken, whatever becomes of that session.
func TestAForwardIsWrittenTwiceAtMost(t *testing.T) { // invariant 9
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		for range 3 {
			s := connectHolding(t, l, true)
			wantPushed(t, s, 1)
			lose(t, s)
			s.leave(false) // was never written, so it does not count
			wantLeft(t, m, 1)
		}
		s := connect(t, l)
		wantPushed(t, s, 1)
		lose(t, s)
		wantLeft(t, m, 1)
		m.fail(fault{call: "drop"})
		s = connect(t, l)
		wantPushed(t, s, 1)
		wantLeft(t, m, 1) // the disk did not take the deletion
		lose(t, s)
		m.append("hi")
		s = connect(t, l)
		wantPushed(t, s, 2)
		wantLeft(t, m, 2)
		lose(t, s)
		if len(l.forwards) != 0 {
			t.Errorf("%d forwards are remembered", len(l.forwards))
		}
	}, "forward")
}

// TestAForwardOfAnEarlierRun: it may have been written then, and nobody knows.
func TestAForwardOfAnEarlierRun(t *testing.T) { // invariant 9
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		m.entries[0].Forward.Earlier = true
		s := connect(t, l)
		wantPushed(t, s, 1)
		wantForms(t, s, 1)
		wantLeft(t, m)
		lose(t, s)
	}, "forward")
}

// TestAForwardPastItsTime: it is an event like another, also if it was pushed as a forward once.
func TestAForwardPastItsTime(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1, 2)
		wantForms(t, s, 1, 2)
		lose(t, s)
		time.Sleep(forwardLasts)
		s = connect(t, l)
		wantPushed(t, s, 1)
		wantForms(t, s)
		time.Sleep(time.Hour)
		lose(t, s)
		if n, _ := deathsOf(m.buffered(), ids(1)[0]); n != 1 {
			t.Errorf("%d deaths, want one", n)
		}
		s = connect(t, l)
		wantPushed(t, s, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 1, 2)
		mustAck(t, s, 2, true)
		wantLeft(t, m)
		lose(t, s)
	}, "forward", "forward")
}

// TestAForwardInTheOutboxesOfTwoSessions: a third one waits until one of them drops it.
func TestAForwardInTheOutboxesOfTwoSessions(t *testing.T) { // invariant 9
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		var s [3]*socket
		for n := range s {
			s[n] = connectHolding(t, l, n < 2)
			if n < 2 {
				wantPushed(t, s[n], 1, 2)
				lose(t, s[n])
			}
		}
		wantPushed(t, s[2], 2)
		s[0].leave(false)
		wantPushed(t, s[2], 2, 1) // late, for it had to wait
		wantLeft(t, m, 1, 2)
		s[1].leave(true) // the second time that it was written
		wantLeft(t, m, 2)
		lose(t, s[2])
	}, "forward", "hi")
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		var s [3]*socket
		for n := range s {
			s[n] = connectHolding(t, l, n < 2)
			if n < 2 {
				wantPushed(t, s[n], 1)
				lose(t, s[n])
			}
		}
		s[0].leave(true)
		wantLeft(t, m, 1)
		s[1].leave(true)
		wantLeft(t, m)
		wantPushed(t, s[2])
		lose(t, s[2])
	}, "forward")
}

// TestAForwardAfterAFlip comes once more, unless the socket has yet to be given it.
func TestAForwardAfterAFlip(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1, 2)
		flip := func() {
			must.Succeed(t, s.pump.Flip(t.Context()))
			s.pump.Resume()
		}
		s.hold(true)
		flip()
		wantPushed(t, s, 1, 2, 1, 2)
		wantLeft(t, m, 1, 2)
		flip()
		wantPushed(t, s, 1, 2, 1, 2, 2)
		s.leave(true)
		wantLeft(t, m, 2)
		flip()
		wantPushed(t, s, 1, 2, 1, 2, 2, 2)
		mustAck(t, s, 2, true)
		wantLeft(t, m)
		lose(t, s)
	}, "forward", "hi")
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) { // it was good for nothing any more
		s := connect(t, l)
		wantPushed(t, s, 1)
		s.mu.Lock()
		s.deaf = true
		s.mu.Unlock()
		time.Sleep(forwardLasts)
		must.Succeed(t, s.pump.Flip(t.Context()))
		s.pump.Resume()
		wantPushed(t, s, 1, 1)
		wantForms(t, s)
		m.append("hi")
		l.Grown(0)
		wantPushed(t, s, 1, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 1, 1, 2)
		lose(t, s)
	}, "forward")
}

func TestADeathIsNoForwards(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s, 1, 2)
		lose(t, s)
		if n, _ := deathsOf(m.buffered(), ids(1)[0]); n != 0 {
			t.Errorf("the forward died %d times", n)
		}
		if n, _ := deathsOf(m.buffered(), ids(2)[0]); n != 1 {
			t.Errorf("the event died %d times, want once", n)
		}
	}, "forward", "hi")
}
