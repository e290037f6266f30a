package session

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay/count"
)

// What each gateway may hold of frames, in bytes, however much the others do: more than their usual
// ones are. freeReading of each session is not even counted.
const (
	freeReading = 16 << 10
	ownReading  = 64 << 10
	ownActing   = 128 << 10
)

// What all gateways may hold beyond that, together: one of the largest frames. Go takes twice as much for
// it, and an action a few times as much while it is cut into messages.
const (
	sharedReading = 1 << 20
	sharedActing  = 7 << 17
)

// Pool bounds what the sessions of all gateways hold of frames. The zero value is empty. Its methods
// may be called from any goroutine.
type Pool struct {
	mu      sync.Mutex       // guards the fields below, and those of every room
	readers map[*Session]int // what each holds of frames that are being read
	freed   chan struct{}    // closed and set to nil when one of them holds less; nil when nobody waits
	acting  int              // of all, beyond what is the gateways' own
}

// Room is what the sessions of one gateway hold together: dialling again, or many times, must not make
// it more. Its methods may be called from any goroutine.
type Room struct {
	pool   *Pool
	acting int // the actions that wait or run, as the bytes of their frames
}

// Room makes the room of one more gateway.
func (p *Pool) Room() *Room { return &Room{pool: p} }

// act adds n, which may be negative, to the actions that wait or run, unless that is too much.
func (r *Room) act(n int) bool {
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	shared := p.acting + max(0, r.acting+n-ownActing) - max(0, r.acting-ownActing)
	if shared > p.acting && shared > sharedActing {
		return false
	}
	p.acting, r.acting = shared, r.acting+n
	return true
}

// read sets what s holds of frames that are being read to n. When all hold too much together, the
// gateway that holds most loses a session, and what that held is waited for: its close takes
// closeTime at most. False: it is s, or s has ended.
func (r *Room) read(s *Session, n int) bool {
	for {
		lost, freed, ok := r.pool.read(s, n)
		for _, o := range lost {
			o.overLimit(errNoRoom.Error(), count.SessionNoRoom)
		}
		if freed == nil {
			return ok
		}
		select {
		case <-freed:
		case <-s.ended:
			_, _, _ = r.pool.read(s, 0)
			return false
		}
	}
}

// read is Room.read, but leaves it to the caller to end the sessions that are lost, and to ask again
// once freed is closed, unless that is nil.
func (p *Pool) read(s *Session, n int) (lost []*Session, freed <-chan struct{}, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < p.readers[s] {
		p.freeLocked()
	}
	if n == 0 {
		delete(p.readers, s)
		return nil, nil, true
	}
	if s.evicted {
		return nil, nil, false
	}
	if p.readers == nil {
		p.readers = make(map[*Session]int)
	}
	p.readers[s] = n
	for p.sharedLocked(false) > sharedReading {
		o := p.greediestLocked(s)
		if o == s {
			delete(p.readers, s)
			p.freeLocked()
			return lost, nil, false
		}
		o.evicted = true
		lost = append(lost, o)
	}
	if p.sharedLocked(true) > sharedReading {
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		return lost, p.freed, false
	}
	return lost, nil, true
}

// freeLocked wakes who waits for others to hold less. p.mu must be held.
func (p *Pool) freeLocked() {
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

// heldLocked is what the sessions of each gateway hold together, all or those that stay. p.mu must be
// held.
func (p *Pool) heldLocked(all bool) map[*Room]int {
	held := make(map[*Room]int)
	for o, n := range p.readers {
		if all || !o.evicted {
			held[o.o.Room] += n
		}
	}
	return held
}

// sharedLocked is how much of that is not the gateways' own. p.mu must be held.
func (p *Pool) sharedLocked(all bool) (shared int) {
	for _, n := range p.heldLocked(all) {
		shared += max(0, n-ownReading)
	}
	return shared
}

// greediestLocked is the session to go when there is too much: of the gateway that holds most, the one
// that does. Of equals it is rather not s, nor one of its gateway. p.mu must be held.
func (p *Pool) greediestLocked(s *Session) *Session {
	held, room := p.heldLocked(false), s.o.Room
	for r, n := range held {
		if n >= held[room] && (n > held[room] || r != s.o.Room) {
			room = r
		}
	}
	var greediest *Session
	for o, n := range p.readers {
		if o.o.Room != room || o.evicted {
			continue
		}
		if most := p.readers[greediest]; greediest == nil || n > most || n == most && greediest == s {
			greediest = o
		}
	}
	return greediest
}
