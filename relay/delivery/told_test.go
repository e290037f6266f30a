package delivery

import (
	"testing"

	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestThePumpTakesTheEntryItIsToldOf: from memory if it waits for just that one, else from the buffer,
// and it reads nothing when there is nothing to read.
func TestThePumpTakesTheEntryItIsToldOf(t *testing.T) { // invariants 3, 6, 7
	bubble(t, 1, Options{}, func(t *testing.T, m *memory, l *Lane) {
		reads := func(want int, when string) {
			t.Helper()
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.reads != want {
				t.Errorf("%s: %d reads, want %d", when, m.reads, want)
			}
			m.reads = 0
		}
		add := func(text string) store.Entry {
			id := m.append(text)
			return store.Entry{Buffer: id, About: store.About{Bot: botOf(text)}}
		}
		s := connect(t, l)
		wantPushed(t, s, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 1)
		reads(2, "an entry that was there before, and the look for more")

		e := add("two")
		l.Appended(e)
		l.Appended(e) // whoever says it twice
		wantPushed(t, s, 1, 2)
		l.Appended(add("three")) // while there is no room for it
		wantPushed(t, s, 1, 2)
		reads(0, "the very next one")
		mustAck(t, s, 2, true)
		wantPushed(t, s, 1, 2, 3)
		reads(2, "one that came while another was in flight, and the look for what is joined to it")
		mustAck(t, s, 3, true)
		wantPushed(t, s, 1, 2, 3)
		reads(0, "what was looked for")

		m.append("four") // nobody says so
		l.Appended(add("five"))
		wantPushed(t, s, 1, 2, 3, 4)
		mustAck(t, s, 4, true)
		wantPushed(t, s, 1, 2, 3, 4, 5)
		mustAck(t, s, 5, true)
		wantPushed(t, s, 1, 2, 3, 4, 5)
		reads(4, "one behind a gap") // what is not joined to one is read again as the next
		l.Grown(5)
		wantPushed(t, s, 1, 2, 3, 4, 5)
		reads(0, "old news")
		l.Grown(0)
		wantPushed(t, s, 1, 2, 3, 4, 5)
		reads(1, "a hint")

		must.Succeed(t, s.pump.Flip(t.Context()))
		l.Appended(add("six"))
		wantPushed(t, s, 1, 2, 3, 4, 5)
		s.pump.Resume()
		wantPushed(t, s, 1, 2, 3, 4, 5, 6)
		mustAck(t, s, 6, true)
		wantPushed(t, s, 1, 2, 3, 4, 5, 6)
		s.end(nil)
		<-s.run
		l.Appended(add("seven"))
		if len(l.offered) != 0 {
			t.Errorf("%d entries are kept for a pump that ended", len(l.offered))
		}
		next := connect(t, l)
		wantPushed(t, next, 7)
		next.end(nil)
	})
}

// TestAWindowIsFilledFromMemory: as far as it goes.
func TestAWindowIsFilledFromMemory(t *testing.T) { // invariant 6
	bubble(t, 0, Options{Window: 2}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantPushed(t, s)
		m.reads = 0
		for _, text := range []string{"one", "two", "three"} {
			l.Appended(store.Entry{Buffer: m.append(text), About: store.About{Bot: loopback}})
		}
		wantPushed(t, s, 1, 2)
		if m.reads != 1 {
			t.Errorf("%d reads, want one: whether there is more to join", m.reads)
		}
		mustAck(t, s, 2, true)
		wantPushed(t, s, 1, 2, 3)
		s.end(nil)
	})
}
