package delivery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// backlog is entries, of which all had gathered when the session begins.
func backlog(t *testing.T, o Options, f func(t *testing.T, m *memory, l *Lane, s *socket), texts ...string) {
	t.Helper()
	entries(t, o, func(t *testing.T, m *memory, l *Lane) {
		time.Sleep(time.Second)
		s := connect(t, l)
		f(t, m, l, s)
		lose(t, s)
	}, texts...)
}

func in(chat relay.ChatID) Conversation {
	return Conversation{Chat: relay.Chat{Bot: loopback, ID: chat}}
}

// TestABacklogWaitsForTheTurnBefore: in its conversation, and nowhere else.
func TestABacklogWaitsForTheTurnBefore(t *testing.T) {
	backlog(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		wantPushed(t, s, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 1, 3) // another conversation
		mustAck(t, s, 3, true)
		wantPushed(t, s, 1, 3)
		s.pump.Heard(in("a"), Final)
		wantPushed(t, s, 1, 3)
		time.Sleep(turnEnds)
		wantPushed(t, s, 1, 3, 2)
		s.pump.Heard(in("a"), Final)
		s.pump.Heard(in("b"), Final)
		time.Sleep(turnEnds)
		wantPushed(t, s, 1, 3, 2)
		mustAck(t, s, 2, true)
		wantPushed(t, s, 1, 3, 2, 4) // the one that waited longest
		mustAck(t, s, 4, true)
		wantPushed(t, s, 1, 3, 2, 4, 5)
		mustAck(t, s, 5, true)
		wantLeft(t, m)
	}, "hi@a/x", "hi@a/y", "hi@b/x", "hi@a/x", "hi@b/y")
}

// TestHowATurnEnds.
func TestHowATurnEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		during func(s *socket)
		want   time.Duration
	}{
		"in silence":             {func(*socket) {}, turnSilent},
		"its end is heard":       {func(s *socket) { s.pump.Heard(in("a"), Final) }, turnEnds},
		"it is closed":           {func(s *socket) { s.pump.Heard(in("a"), Said); s.pump.Heard(in("a"), Closed) }, turnEnds},
		"it is put off":          {func(s *socket) { s.pump.Heard(in("a"), Closed) }, turnSilent},
		"nothing final was said": {func(s *socket) { s.pump.Heard(in("a"), Said) }, turnSilent},
		"elsewhere":              {func(s *socket) { s.pump.Heard(in("b"), Final) }, turnSilent},
		"after a sign of life":   {func(s *socket) { time.Sleep(40 * time.Second); s.pump.Heard(in("a"), Alive) }, 40*time.Second + turnSilent},
		"after more than its end": {func(s *socket) {
			s.pump.Heard(in("a"), Final)
			for range 5 { // it goes on after all
				time.Sleep(2 * time.Second)
				s.pump.Heard(in("a"), Alive)
			}
		}, 10*time.Second + turnEnds},
		"when nobody waits any longer": {func(s *socket) {
			for began := time.Now(); time.Since(began) < turnMost-3*time.Second; {
				time.Sleep(2 * time.Second)
				s.pump.Heard(in("a"), Alive)
			}
		}, turnMost},
	} {
		t.Run(name, func(t *testing.T) {
			backlog(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
				wantPushed(t, s, 1)
				began := time.Now()
				mustAck(t, s, 1, true)
				tc.during(s)
				time.Sleep(time.Until(began.Add(tc.want - time.Millisecond)))
				wantPushed(t, s, 1)
				time.Sleep(time.Millisecond)
				wantPushed(t, s, 1, 2)
			}, "hi@a/x", "hi@a/y")
		})
	}
}

// TestWhatIsSaidLiveIsGivenAtOnce: also into a turn, unless something older waits in its conversation; and with that it is
// joined.
func TestWhatIsSaidLiveIsGivenAtOnce(t *testing.T) {
	backlog(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		say := func(text string) {
			m.append(text)
			l.Appended(m.buffered()[len(m.buffered())-1])
			synctest.Wait()
		}
		wantPushed(t, s, 1)
		mustAck(t, s, 1, true)
		say("hi@a/y#3") // behind the second
		say("hi@b/y#4")
		wantPushed(t, s, 1, 4)
		mustAck(t, s, 4, true)
		say("urgent@a/x#5")
		wantPushed(t, s, 1, 4, 5)
		mustAck(t, s, 5, true)
		time.Sleep(turnSilent)
		wantGiven(t, s, "hi@a/x#1", "hi@b/y#4", "urgent@a/x#5", lines("hi@a/y#2", "hi@a/y#3"))
		mustAck(t, s, 3, true)
		say("hi@a/x#6") // into the turn
		wantPushed(t, s, 1, 4, 5, 3, 6)
		mustAck(t, s, 6, true)
		wantLeft(t, m)
	}, "hi@a/x#1", "hi@a/y#2")
}

// inSession is a conversation of programs.
func inSession(chat relay.ChatID) Conversation {
	return Conversation{Chat: relay.Chat{Bot: relay.ProgramBot(), ID: chat}}
}

// TestAProgramWaitsForTheTurnBefore: also when it hands over while the session runs, but not when it wakes the agent.
func TestAProgramWaitsForTheTurnBefore(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		say := func(text string, pushed ...uint64) {
			t.Helper()
			m.append(text)
			l.Appended(m.buffered()[len(m.buffered())-1])
			wantPushed(t, s, pushed...)
		}
		say("program@a/x#1", 1)
		mustAck(t, s, 1, true)
		say("program@a/x#2", 1)
		say("program@b/x#3", 1, 3) // another session
		mustAck(t, s, 3, true)
		say("hi@a/x#4", 1, 3, 4) // another bot's chat
		mustAck(t, s, 4, true)
		s.pump.Heard(inSession("a"), Final)
		time.Sleep(programEnds)
		wantPushed(t, s, 1, 3, 4, 2)
		mustAck(t, s, 2, true)
		say("wake@a/x#5", 1, 3, 4, 2, 5) // into the turn
		mustAck(t, s, 5, true)
		say("program@a/x#6", 1, 3, 4, 2, 5)
		say("wake@a/x#7", 1, 3, 4, 2, 5, 7) // before what waits
		mustAck(t, s, 7, true)
		for range 10 { // it types
			time.Sleep(programSilent - time.Second)
			s.pump.Heard(inSession("a"), Alive)
		}
		wantPushed(t, s, 1, 3, 4, 2, 5, 7)
		time.Sleep(programSilent) // and falls silent without an answer
		wantPushed(t, s, 1, 3, 4, 2, 5, 7, 6)
		mustAck(t, s, 6, true)
		wantLeft(t, m)
		lose(t, s)
	})
}

// TestAGatewayThatDoesNotType has longer for what a program hands over: silence means nothing there.
func TestAGatewayThatDoesNotType(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := begin(t, l, &socket{mute: true})
		for _, text := range []string{"program@a/x", "program@a/y"} {
			m.append(text)
			l.Appended(m.buffered()[len(m.buffered())-1])
		}
		wantPushed(t, s, 1)
		mustAck(t, s, 1, true)
		time.Sleep(turnSilent - time.Second)
		wantPushed(t, s, 1)
		time.Sleep(time.Second)
		wantPushed(t, s, 1, 2)
		mustAck(t, s, 2, true)
		lose(t, s)
	})
}

// TestATurnOfAnEarlierSession is waited for once, by what may come into it, and until its end is heard.
func TestATurnOfAnEarlierSession(t *testing.T) {
	for name, tc := range map[string]struct {
		heard bool
		after time.Duration
	}{"it ends": {true, programEnds}, "nothing is heard of it": {false, programSilent}} {
		t.Run(name, func(t *testing.T) {
			entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
				s := connect(t, l)
				for _, text := range []string{"following@a/x", "program@b/x", "following@a/y"} {
					m.append(text)
					l.Appended(m.buffered()[len(m.buffered())-1])
				}
				wantPushed(t, s, 2)
				mustAck(t, s, 2, true)
				if tc.heard {
					s.pump.Heard(inSession("a"), Final)
				}
				time.Sleep(tc.after - time.Millisecond)
				wantPushed(t, s, 2)
				time.Sleep(time.Millisecond)
				wantPushed(t, s, 2, 1)
				mustAck(t, s, 1, true)
				s.pump.Heard(inSession("a"), Final)
				time.Sleep(programEnds)
				wantPushed(t, s, 2, 1, 3)
				mustAck(t, s, 3, true)
				lose(t, s)
			})
		})
	}
}

// TestAGatewayThatWokeHasABacklog: what gathered while it slept is not live, though the socket is the same.
func TestAGatewayThatWokeHasABacklog(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		s := connect(t, l)
		synctest.Wait()
		must.Succeed(t, s.pump.Flip(t.Context()))
		for _, text := range []string{"hi@a/x", "hi@a/y"} {
			m.append(text)
			l.Appended(m.buffered()[len(m.buffered())-1])
		}
		time.Sleep(time.Second)
		s.pump.Resume()
		wantPushed(t, s, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 1)
		time.Sleep(turnSilent)
		wantPushed(t, s, 1, 2)
		lose(t, s)
	})
}

// TestAFlipEndsEveryTurn: a gateway that slept runs none.
func TestAFlipEndsEveryTurn(t *testing.T) {
	backlog(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		wantPushed(t, s, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 1)
		must.Succeed(t, s.pump.Flip(t.Context()))
		time.Sleep(turnMost)
		wantPushed(t, s, 1)
		s.pump.Resume()
		wantPushed(t, s, 1, 2)
	}, "hi@a/x", "hi@a/y")
}

// TestABacklogIsReadOnceForItsTurns: however many wait, each is looked at once, and read again when it is given.
func TestABacklogIsReadOnceForItsTurns(t *testing.T) {
	const people = 1000
	var said []string
	for n := range people {
		said = append(said, fmt.Sprintf("hi@a/%d", n))
	}
	backlog(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		for n := range uint64(people) {
			synctest.Wait()
			mustAck(t, s, n+1, true)
			s.pump.Heard(in("a"), Final)
			time.Sleep(turnEnds)
		}
		wantLeft(t, m)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.reads > 3*people+3 { // a look, the entry when it is given, and whether the one behind it is joined
			t.Errorf("%d reads for a backlog of %d", m.reads, people)
		}
	}, said...)
}

// TestWhatIsBuriedMeanwhileHoldsNothingUp.
func TestWhatIsBuriedMeanwhileHoldsNothingUp(t *testing.T) {
	backlog(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		wantPushed(t, s, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 1)
		must.Succeed(t, m.Bury(t.Context(), "i1", ids(2)[0], "overflow"))
		time.Sleep(turnSilent)
		wantPushed(t, s, 1, 3)
	}, "hi@a/x", "hi@a/y", "hi@a/x")
}

// TestAnotherBotsConversationWaitsForBoth: until the session fronts it, and then for its turns.
func TestAnotherBotsConversationWaitsForBoth(t *testing.T) {
	backlog(t, Options{}, func(t *testing.T, m *memory, l *Lane, s *socket) {
		wantPushed(t, s, 2)
		mustAck(t, s, 2, true)
		s.widen()
		wantPushed(t, s, 2, 1)
		mustAck(t, s, 1, true)
		wantPushed(t, s, 2, 1)
		time.Sleep(turnSilent)
		wantPushed(t, s, 2, 1, 3)
	}, "strange@a/x", "hi@a/x", "strange@a/y")
}

// TestAForwardThatBecameAnEventWhileItWaited waits for the window like others.
func TestAForwardThatBecameAnEventWhileItWaited(t *testing.T) {
	entries(t, Options{}, func(t *testing.T, m *memory, l *Lane) {
		m.mu.Lock()
		m.entries[0].About.Bot = strange
		m.mu.Unlock()
		s := connect(t, l)
		wantPushed(t, s, 2)
		time.Sleep(forwardLasts)
		s.widen()
		wantPushed(t, s, 2)
		mustAck(t, s, 2, true)
		wantPushed(t, s, 2, 1)
		wantForms(t, s)
		lose(t, s)
	}, "forward", "hi")
}
