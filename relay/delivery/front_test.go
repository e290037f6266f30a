package delivery

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestAnEntryOfAnotherBotWaitsAndHoldsNobodyUp is invariant 3: what the session does not front is passed
// over, stays, and comes once the session fronts it, before what is newer.
func TestAnEntryOfAnotherBotWaitsAndHoldsNobodyUp(t *testing.T) {
	bubble(t, 0, Options{}, func(t *testing.T, m *memory, l *Lane) {
		for _, text := range []string{"strange", "hi", "strange", "hi"} {
			m.append(text)
		}
		s := connect(t, l)
		wantPushed(t, s, 2)
		mustAck(t, s, 2, true)
		wantPushed(t, s, 2, 4)
		m.append("hi")
		l.Grown(0)
		s.widen()
		wantPushed(t, s, 2, 4) // 4 is in flight still
		mustAck(t, s, 4, true)
		wantPushed(t, s, 2, 4, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 2, 4, 1, 3)
		mustAck(t, s, 3, true)
		wantPushed(t, s, 2, 4, 1, 3, 5)
		s.end(errLost)
		<-s.run
		if n, ok := deathsOf(m.buffered(), ids(5)[0]); n != 1 || !ok {
			t.Errorf("deaths of the one in flight = %d, %v, want 1", n, ok)
		}
	})
}

// TestAFlipAmongEntriesThatWait: after a resume what was in flight comes first, also when older ones
// are due because their bot is fronted now.
func TestAFlipAmongEntriesThatWait(t *testing.T) {
	bubble(t, 0, Options{}, func(t *testing.T, m *memory, l *Lane) {
		m.append("strange")
		m.append("hi")
		s := connect(t, l)
		wantPushed(t, s, 2)
		must.Succeed(t, s.pump.Flip(t.Context()))
		s.widen()
		wantPushed(t, s, 2)
		s.pump.Resume()
		wantPushed(t, s, 2, 2)
		mustAck(t, s, 2, true)
		wantPushed(t, s, 2, 2, 1)
		s.end(nil)
	})
}

// TestWhatIsPassedOverIsReadOnce: a lane full of what nobody fronts costs one look, not one at every push.
func TestWhatIsPassedOverIsReadOnce(t *testing.T) {
	bubble(t, 0, Options{}, func(t *testing.T, m *memory, l *Lane) {
		const waiting = 1000
		for range waiting {
			m.append("strange")
		}
		s := connect(t, l)
		synctest.Wait()
		const live = 100
		for n := range uint64(live) {
			m.append("hi")
			l.Grown(0)
			synctest.Wait()
			mustAck(t, s, waiting+1+n, true)
		}
		synctest.Wait()
		m.mu.Lock()
		reads := m.reads
		m.mu.Unlock()
		if reads > waiting+3*live {
			t.Errorf("%d reads for %d entries that wait and %d that came", reads, waiting, live)
		}
		s.end(nil)
	})
}

// TestABotFrontedWhileAnEntryIsLookedAt: what was passed over before comes nevertheless.
func TestABotFrontedWhileAnEntryIsLookedAt(t *testing.T) {
	bubble(t, 0, Options{}, func(t *testing.T, m *memory, l *Lane) {
		m.append("strange")
		m.append("hi")
		s := &socket{run: make(chan error, 1)}
		stray := store.Entry{About: store.About{Bot: strange}}
		s.pump = l.NewPump(Outlet{Push: s.push, Takes: func(ctx context.Context, e store.Entry) bool {
			if e.About.Bot != strange && !s.takes(ctx, stray) {
				s.widen()
			}
			return s.takes(ctx, e)
		}})
		ctx, end := context.WithCancel(t.Context())
		go func() { s.run <- s.pump.Run(ctx) }()
		wantPushed(t, s, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 1, 2)
		end()
		<-s.run
	})
}

// TestOnlyWhatIsUrgentIsTaken: it passes what waits, and leaves it where it is. When all is taken again, that comes in turns.
func TestOnlyWhatIsUrgentIsTaken(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := begin(t, l, &socket{still: true, alone: true})
		wantPushed(t, s, 2)
		mustAck(t, s, 2, true)
		for _, text := range []string{"hi@b", "urgent@a"} { // as they come, too
			m.append(text)
			l.Grown(0)
		}
		wantPushed(t, s, 2, 5)
		mustAck(t, s, 5, true)
		s.hush(true)
		wantPushed(t, s, 2, 5)
		time.Sleep(time.Second)
		s.hush(false)
		wantPushed(t, s, 2, 5, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 2, 5, 1, 4)
		mustAck(t, s, 4, true)
		wantPushed(t, s, 2, 5, 1, 4)
		time.Sleep(turnSilent)
		wantPushed(t, s, 2, 5, 1, 4, 3)
		mustAck(t, s, 3, true)
		s.hush(true)
		m.append("hi@a")
		l.Grown(0)
		wantPushed(t, s, 2, 5, 1, 4, 3)
		s.end(nil)
		<-s.run
		if n := len(m.buffered()); n != 1 {
			t.Errorf("%d entries are left, want 1", n)
		}
	}, "hi@a", "urgent@a", "hi@a")
}

// TestWhatIsUrgentDoesNotWaitBehindWhatIsNot: both waited for their bot, and then only the one is taken.
func TestWhatIsUrgentDoesNotWaitBehindWhatIsNot(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		for n := range m.entries {
			m.entries[n].About.Bot = strange
		}
		s := begin(t, l, &socket{still: true})
		wantPushed(t, s)
		s.widen()
		wantPushed(t, s, 2)
		mustAck(t, s, 2, true)
		wantPushed(t, s, 2)
		s.hush(false)
		wantPushed(t, s, 2, 1)
		mustAck(t, s, 1, true)
		s.end(nil)
	}, "hi@a", "urgent@a")
}

// TestTheSessionStopsTakingInAConversation: what waits there for its turn waits on, and comes later.
func TestTheSessionStopsTakingInAConversation(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := begin(t, l, &socket{alone: true})
		wantPushed(t, s, 1)
		mustAck(t, s, 1, true)
		s.hush(true)
		time.Sleep(turnMost)
		wantPushed(t, s, 1)
		s.hush(false)
		wantPushed(t, s, 1, 2)
		mustAck(t, s, 2, true)
		s.end(nil)
	}, "hi@a", "hi@a")
}
