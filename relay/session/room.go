package session

import "sync"

const (
	// maxReading bounds the frames that are being read: two of the largest, for a new connection
	// and one that is half dead.
	maxReading = 2 << 20
	// freeReading of each session is not counted: most frames are small.
	freeReading = 16 << 10
	// maxActing bounds the actions that wait or run, as the bytes of their frames: one of the largest,
	// which takes a few times as much while it is cut into messages, and the usual small ones.
	maxActing = 5 << 18
)

// Room bounds what the sessions of one gateway hold of frames together, in bytes: dialling again,
// or many times, must not make it more. The zero value is empty. Its methods may be called from
// any goroutine.
type Room struct {
	mu              sync.Mutex // guards the fields below
	reading, acting int
}

// read adds n, which may be negative, to what is being read, unless that is too much.
func (r *Room) read(n int) bool { return r.add(&r.reading, n, maxReading) }

// act adds n, which may be negative, to what waits or runs, unless that is too much.
func (r *Room) act(n int) bool { return r.add(&r.acting, n, maxActing) }

func (r *Room) add(to *int, n, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > 0 && *to+n > most {
		return false
	}
	*to += n
	return true
}
