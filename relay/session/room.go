package session

import "sync"

// What each gateway may hold of frames, in bytes, however much the others do: more than their usual
// ones are. freeReading of each session is not even counted.
const (
	freeReading = 16 << 10
	ownReading  = 128 << 10
	ownActing   = 256 << 10
)

// What all gateways may hold beyond that, together: one of the largest frames, which takes a few times
// as much while it is cut into messages, and a few large ones.
const (
	sharedReading = 5 << 18
	sharedActing  = 1 << 20
)

// Pool bounds what the sessions of all gateways hold of frames. The zero value is empty. Its methods
// may be called from any goroutine.
type Pool struct {
	mu      sync.Mutex // guards the fields below, and those of every room
	readers map[*Session]int
	acting  int // beyond what is the gateways' own
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
// gateway that holds most gives up a session: false means that it is s.
func (r *Room) read(s *Session, n int) bool {
	lost, ok := r.pool.read(s, n)
	for _, o := range lost {
		o.overLimit(errNoRoom.Error(), CountNoRoom)
	}
	return ok
}

// read is Room.read, but leaves it to the caller to end the sessions that are lost.
func (p *Pool) read(s *Session, n int) (lost []*Session, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n == 0 {
		delete(p.readers, s)
		return nil, true
	}
	if s.evicted {
		return nil, false
	}
	if p.readers == nil {
		p.readers = make(map[*Session]int)
	}
	p.readers[s] = n
	for {
		switch o := p.greediestLocked(s); o {
		case nil:
			return lost, true
		case s:
			delete(p.readers, s)
			return lost, false
		default:
			delete(p.readers, o)
			o.evicted = true
			lost = append(lost, o)
		}
	}
}

// greediestLocked is the session to go when there is too much: of the gateway that holds most, the one
// that does. Of equals it is rather not s, nor one of its gateway. p.mu must be held.
func (p *Pool) greediestLocked(s *Session) (greediest *Session) {
	held := make(map[*Room]int)
	for o, n := range p.readers {
		held[o.o.Room] += n
	}
	shared, room := 0, s.o.Room
	for r, n := range held {
		shared += max(0, n-ownReading)
		if n >= held[room] && (n > held[room] || r != s.o.Room) {
			room = r
		}
	}
	if shared <= sharedReading {
		return nil
	}
	for o, n := range p.readers {
		if o.o.Room != room {
			continue
		}
		if most := p.readers[greediest]; greediest == nil || n > most || n == most && greediest == s {
			greediest = o
		}
	}
	return greediest
}
