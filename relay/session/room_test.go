package session

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay/count"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// reader is a session that only holds.
func reader(r *Room) *Session { return &Session{o: Options{Room: r}, ended: make(chan struct{})} }

func TestThePoolTakesFromTheGreediest(t *testing.T) {
	const large, some = wire.MaxFrame - freeReading, 512 << 10
	type step struct {
		session, bytes int
		lost           []int // in any order
		refused        bool
	}
	for name, tc := range map[string]struct {
		rooms []int // the gateway of each session
		steps []step
	}{
		"one largest frame":                     {[]int{0}, []step{{session: 0, bytes: large}}},
		"everybody's ordinary ones beside":      {[]int{0, 1, 2, 1}, []step{{session: 0, bytes: large}, {session: 1, bytes: ownReading / 2}, {session: 2, bytes: ownReading}, {session: 3, bytes: ownReading / 2}}},
		"another gateway's largest, afterwards": {[]int{0, 1}, []step{{session: 0, bytes: large}, {session: 0}, {session: 1, bytes: large}}},
		"the holder goes, not the newcomer":     {[]int{0, 1}, []step{{session: 0, bytes: large}, {session: 1, bytes: ownReading}, {session: 1, bytes: large, lost: []int{0}}}},
		"many connections count together":       {[]int{0, 0, 0, 1}, []step{{session: 0, bytes: some / 2}, {session: 1, bytes: some / 2}, {session: 2, bytes: some / 3}, {session: 3, bytes: some, lost: []int{-1}}}},
		"the newcomer goes, when it wants more": {[]int{0, 1, 2, 3}, []step{{session: 0, bytes: some / 2}, {session: 1, bytes: some / 2}, {session: 2, bytes: some / 2}, {session: 3, bytes: large, refused: true}, {session: 2, bytes: some / 2}}},
		"the old connection, for the new one":   {[]int{0, 0}, []step{{session: 0, bytes: large}, {session: 1, bytes: large, lost: []int{0}}}},
		"an ordinary frame when all is taken":   {[]int{0, 0, 1}, []step{{session: 0, bytes: large}, {session: 1, bytes: sharedReading + ownReading - large}, {session: 2, bytes: ownReading}}},
		"who is lost gets nothing more":         {[]int{0, 1}, []step{{session: 0, bytes: large}, {session: 1, bytes: large, lost: []int{0}}, {session: 0, bytes: 1, refused: true}, {session: 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			var p Pool
			rooms := make(map[int]*Room)
			var sessions []*Session
			for _, n := range tc.rooms {
				if rooms[n] == nil {
					rooms[n] = p.Room()
				}
				sessions = append(sessions, reader(rooms[n]))
			}
			for i, st := range tc.steps {
				s := sessions[st.session]
				lost, freed, ok := p.read(s, st.bytes)
				if waits := freed != nil; waits != (len(lost) > 0) {
					t.Errorf("step %d: waits %v, and %d sessions are lost", i, waits, len(lost))
				}
				if freed != nil {
					for _, o := range lost {
						_, _, _ = p.read(o, 0)
					}
					<-freed
					_, _, ok = p.read(s, st.bytes)
				}
				if ok == st.refused {
					t.Errorf("step %d: fits %v, want %v", i, ok, !st.refused)
				}
				if len(lost) != len(st.lost) {
					t.Fatalf("step %d: %d sessions are lost, want %d", i, len(lost), len(st.lost))
				}
				for j, o := range lost {
					if n := slices.Index(sessions, o); st.lost[j] >= 0 && n != st.lost[j] || n == st.session {
						t.Errorf("step %d: session %d is lost, want %d", i, n, st.lost[j])
					}
				}
			}
			for _, s := range sessions {
				_, _, _ = p.read(s, 0)
			}
			if len(p.readers) != 0 {
				t.Errorf("%d sessions hold something after the end", len(p.readers))
			}
		})
	}
}

// TestThePoolIsBounded: however many gateways there are, and each has its own.
func TestThePoolIsBounded(t *testing.T) {
	var p Pool
	first := p.Room()
	for n := 0; first.act(16 << 10); n++ {
		if n > (ownActing+sharedActing)>>14 {
			t.Fatal("actions are without bound")
		}
	}
	if first.acting != ownActing+sharedActing {
		t.Errorf("one gateway alone may hold %d bytes of actions, want %d", first.acting, ownActing+sharedActing)
	}
	for range 3 {
		r := p.Room()
		if !r.act(ownActing) {
			t.Error("a gateway's own is taken by another")
		}
		if r.act(1) {
			t.Error("more than is shared")
		}
		r.act(-ownActing)
	}
	first.act(-first.acting)
	if p.acting != 0 {
		t.Errorf("%d bytes are held by nobody", p.acting)
	}
	if r := p.Room(); !r.act(wire.MaxFrame) {
		t.Error("the largest action finds no room in an empty pool")
	}
}

// TestSessionsShareAPool: who holds most of what has begun on many connections goes, for a frame of
// another gateway; and what a session held is free again when it has ended.
func TestSessionsShareAPool(t *testing.T) {
	half := message(strings.Repeat("x", wire.MaxFrame))[:wire.MaxFrame*3/4]
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		pool := r.s.o.Room.pool
		go func() { _, _ = r.wire.Write(half) }()
		synctest.Wait()
		if pool.readers[r.s] < wire.MaxFrame/2 {
			t.Fatalf("%d bytes are charged for three quarters of a frame", pool.readers[r.s])
		}
		other := pool.Room()
		if s := reader(other); !other.read(s, 900<<10) || !other.read(s, 0) {
			t.Error("there is no room for a large frame of another gateway")
		}
		_ = r.wantClose(websocket.StatusPolicyViolation, "too many unfinished frames")
		r.wantCount(count.SessionNoRoom, 1)
		if len(pool.readers) != 0 {
			t.Error("something is charged after the end")
		}
	})
	inBubble(t, &hub{}, Options{}, func(t *testing.T, r *rig) {
		r.greet()
		pool := r.s.o.Room.pool
		_, _ = r.wire.Write(half[:4*freeReading])
		synctest.Wait()
		if pool.readers[r.s] == 0 {
			t.Error("nothing is charged for half a frame")
		}
		_ = r.wire.Close()
		<-r.run
		if len(pool.readers) != 0 {
			t.Error("something is charged after the end")
		}
	})
}

// TestTheReaderThatWantsMostGoes: where others hold less, but too much together.
func TestTheReaderThatWantsMostGoes(t *testing.T) {
	var pool Pool
	for range 6 {
		r := pool.Room()
		if !r.read(reader(r), 200<<10) {
			t.Fatal("the pool is full too early")
		}
	}
	inBubble(t, &hub{}, Options{Room: pool.Room()}, func(t *testing.T, r *rig) {
		r.greet()
		r.ask("ordinary", say(strings.Repeat("x", 60<<10)))
		r.succeeded("ordinary", "")
		go func() { _, _ = r.wire.Write(message(strings.Repeat("x", wire.MaxFrame))[:wire.MaxFrame*3/4]) }()
		_ = r.wantClose(websocket.StatusPolicyViolation, "too many unfinished frames")
		r.wantCount(count.SessionNoRoom, 1)
	})
}
