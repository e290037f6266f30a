package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// wantGiven checks the texts that a socket was given so far, once nothing moves any more.
func wantGiven(t *testing.T, s *socket, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, slices.Clone(s.given)); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
}

// numbered are n texts of one kind, each with its number.
func numbered(n int, text string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s#%d", text, i+1)
	}
	return all
}

func lines(texts ...string) string { return strings.Join(texts, "\n") }

// TestWhatOnePersonSaidInARowIsOneEvent, up to the limit, under the newest one's id; its acknowledgement is that of all.
func TestWhatOnePersonSaidInARowIsOneEvent(t *testing.T) {
	said := numbered(maxJoined+2, "hi@a/x")
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantGiven(t, s, lines(said[:maxJoined]...))
		wantPushed(t, s, maxJoined)
		mustAck(t, s, 1, false) // nobody was given that id
		mustAck(t, s, maxJoined, true)
		wantLeft(t, m, maxJoined+1, maxJoined+2)
		wantGiven(t, s, lines(said[:maxJoined]...), lines(said[maxJoined:]...))
		mustAck(t, s, maxJoined+2, true)
		wantLeft(t, m)
		if len(s.taken) != maxJoined+2 {
			t.Errorf("%d entries were said to be taken, want each", len(s.taken))
		}
		lose(t, s)
	}, said...)
}

// TestWhatStandsAlone: other people's, other chats', commands, forwards and what is not said anywhere.
func TestWhatStandsAlone(t *testing.T) {
	for name, said := range map[string][]string{
		"two people":   {"hi@a/x#1", "hi@a/y#2", "hi@a/x#3"},
		"two chats":    {"hi@a/x#1", "hi@b/x#2", "hi@a/x#3"},
		"a command":    {"hi@a/x#1", "command@a/x#2", "hi@a/x#3"},
		"two bots":     {"hi@a/x#1", "strange@a/x#2"},
		"nowhere":      {"hi", "hi"},
		"two commands": {"command@a/x#1", "command@a/x#2"},
		"a forward":    {"hi@a/x#1", "forward@a/x#2", "hi@a/x#3"},
	} {
		t.Run(name, func(t *testing.T) {
			entries(t, Options{Window: 9}, func(t *testing.T, m *memory, l *Lane) {
				s := begin(t, l, &socket{wide: true})
				want := slices.Clone(said)
				wantGiven(t, s, want...)
				lose(t, s)
			}, said...)
		})
	}
}

// TestWhatIsSaidMeanwhileIsJoined: while one is in flight others gather, and nothing is waited for.
func TestWhatIsSaidMeanwhileIsJoined(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		said := numbered(3, "hi@a/x")
		for _, text := range said {
			m.append(text)
			l.Appended(m.buffered()[len(m.buffered())-1])
			synctest.Wait()
		}
		wantGiven(t, s, said[0])
		mustAck(t, s, 1, true)
		wantGiven(t, s, said[0], lines(said[1:]...))
		mustAck(t, s, 3, true)
		wantLeft(t, m)
		lose(t, s)
	})
}

// TestWhatWaitedIsJoinedToWhatWasNotLookedAt: its bot is fronted before the pump has seen what was said next.
func TestWhatWaitedIsJoinedToWhatWasNotLookedAt(t *testing.T) {
	said := numbered(3, "strange@a/x")
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantGiven(t, s)
		for _, text := range said[1:] {
			m.append(text)
		}
		l.mu.Lock() // so that it looks only when the bot is fronted
		l.told = 3
		l.mu.Unlock()
		s.widen()
		wantGiven(t, s, lines(said...))
		mustAck(t, s, 3, true)
		wantGiven(t, s, lines(said...))
		wantLeft(t, m)
		lose(t, s)
	}, said[0])
}

// TestWhatIsOfferedIsJoinedFromMemory.
func TestWhatIsOfferedIsJoinedFromMemory(t *testing.T) {
	entries(t, Options{Window: 2}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		synctest.Wait()
		m.reads = 0
		said := numbered(2, "whole@a/x")
		for _, text := range said {
			m.append(text)
		}
		all := m.buffered()
		l.mu.Lock() // so that both are there when it looks
		l.offered = append(l.offered, all...)
		l.told = 2
		l.changedLocked()
		l.mu.Unlock()
		wantGiven(t, s, lines(said...))
		if want := len(said); m.reads != want { // settling looks whether they are still there
			t.Errorf("%d reads, want %d", m.reads, want)
		}
		mustAck(t, s, 2, true)
		wantGiven(t, s, lines(said...))
		wantLeft(t, m)
		lose(t, s)
	})
}

// TestTheOneInDoubtComesAgain: after the death of its session with what came meanwhile, after a flip as it was.
func TestTheOneInDoubtComesAgain(t *testing.T) {
	said := numbered(3, "hi@a/x")
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantGiven(t, s, lines(said[:2]...))
		m.append(said[2])
		must.Succeed(t, s.pump.Flip(t.Context()))
		s.pump.Resume()
		wantGiven(t, s, lines(said[:2]...), lines(said[:2]...))
		lose(t, s)
		next := connect(t, l)
		wantGiven(t, next, lines(said...))
		mustAck(t, next, 3, true)
		wantLeft(t, m)
		lose(t, next)
	}, said[:2]...)
}

// TestWhatIsLeftOfAJoinComesAgain: a part was dropped while its gateway slept.
func TestWhatIsLeftOfAJoinComesAgain(t *testing.T) {
	said := numbered(3, "hi@a/x")
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		wantGiven(t, s, lines(said...))
		must.Succeed(t, s.pump.Flip(t.Context()))
		must.Succeed(t, m.Bury(t.Context(), "i1", ids(2)[0], store.DeadOverflow))
		s.pump.Resume()
		wantGiven(t, s, lines(said...), lines(said[0], said[2]))
		mustAck(t, s, 3, true)
		wantLeft(t, m)
		lose(t, s)
	}, said...)
}

// TestOnlyThePoisonousPartIsBuried: after two deaths the parts come one by one.
func TestOnlyThePoisonousPartIsBuried(t *testing.T) {
	said := numbered(3, "hi@a/x")
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		deadly := func(s *socket) (died bool) { // the gateway dies of the second message
			for n := 0; ; n++ {
				synctest.Wait()
				given := s.seen()
				if len(given) == n {
					time.Sleep(turnSilent)
					continue
				}
				if strings.Contains(s.given[n], said[1]) {
					lose(t, s)
					return true
				}
				mustAck(t, s, given[n].Seq, true)
				if n == 0 && len(m.buffered()) == 0 {
					return false
				}
			}
		}
		for range maxDeaths {
			deadly(connect(t, l))
		}
		if why, _ := m.reason(ids(2)[0]); why != store.DeadDeaths {
			t.Errorf("the poisonous one: %q, want it dead", why)
		}
		if len(m.dead) != 1 {
			t.Errorf("dead letters: %v, want one", m.dead)
		}
		s := connect(t, l)
		wantGiven(t, s, said[2])
		mustAck(t, s, 3, true)
		wantLeft(t, m)
		lose(t, s)
	}, said...)
}

// TestWhatCannotBeGivenAsOneIsGivenOneByOne: only what cannot be given at all is buried.
func TestWhatCannotBeGivenAsOneIsGivenOneByOne(t *testing.T) {
	for _, bad := range []string{"poison", "panic", "unfit", "unsettling"} {
		t.Run(bad, func(t *testing.T) {
			said := []string{"hi@a/x#1", bad + "@a/x#2", "hi@a/x#3"}
			entries(t, Options{Window: 3}, func(t *testing.T, m *memory, l *Lane) {
				time.Sleep(time.Second) // all of it is backlog, and waits for its turns
				s := connect(t, l)
				wantGiven(t, s, said[0])
				mustAck(t, s, 1, true)
				time.Sleep(turnSilent)
				wantGiven(t, s, said[0], said[2])
				if why, _ := m.reason(ids(2)[0]); why != store.DeadPoison || len(m.dead) != 1 {
					t.Errorf("dead letters: %v, want the second", m.dead)
				}
				lose(t, s)
			}, said...)
		})
	}
}

// TestAJoinWaitsForItsFiles: it is looked whether all of it is still there then.
func TestAJoinWaitsForItsFiles(t *testing.T) { // invariant 10
	said := numbered(2, "whole@a/x")
	inPlay(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		wantPushed(t, s)
		m.append("whole@a/x#3")
		must.Succeed(t, m.Bury(t.Context(), "i1", ids(1)[0], store.DeadRemoved))
		s.hurry()
		wantGiven(t, s, lines(said[1], "whole@a/x#3"))
		lose(t, s)
	}, said...)
}
