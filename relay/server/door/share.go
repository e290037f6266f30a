package door

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Share gives the requests of one listener to servers that come and go: the server that serves at the moment answers
// them. Make one with NewShare.
type Share struct {
	otherwise http.Handler

	mu  sync.Mutex // guards the fields below, and those of all turns
	now *turn      // the present server's turn; nil: nobody serves
}

// NewShare makes a share, for which otherwise answers while nobody serves.
func NewShare(otherwise http.Handler) *Share { return &Share{otherwise: otherwise} }

// Turn returns a door at the share. Of several doors one serves at a time: the one whose Serve was called last.
func (s *Share) Turn() Door {
	return &turn{of: s, under: make(map[*request]func()), over: make(chan struct{}), idle: make(chan struct{})}
}

// ServeHTTP answers a request from the listener.
func (s *Share) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	t, leave := s.enter(func() {
		cancel()
		conn := http.NewResponseController(w)
		_, _ = conn.SetReadDeadline(time.Now()), conn.SetWriteDeadline(time.Now())
	})
	if t == nil {
		s.otherwise.ServeHTTP(w, r)
		return
	}
	defer leave()
	t.h.ServeHTTP(w, r.WithContext(ctx))
}

// Served reports whether somebody serves.
func (s *Share) Served() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now != nil
}

// Refused counts a connection that the listener refused.
func (s *Share) Refused() {
	s.mu.Lock()
	t := s.now
	s.mu.Unlock()
	if t != nil {
		t.refused()
	}
}

// enter counts a request for the present server, until leave is called; end ends the request. t is nil if nobody
// serves.
func (s *Share) enter(end func()) (t *turn, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t = s.now; t == nil {
		return nil, nil
	}
	me := new(request)
	t.under[me] = end
	return t, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(t.under, me)
		t.rest()
	}
}

// turn is the door of one server.
type turn struct {
	of      *Share
	h       http.Handler
	refused func()

	closed bool                // nothing is let in any more
	under  map[*request]func() // the requests under way, with the function that ends each
	over   chan struct{}       // closed with closed
	idle   chan struct{}       // closed when the turn is closed and no request is under way
}

// request is a request under way; it has a size, because otherwise all of them might have one address.
type request struct{ _ byte }

func (t *turn) Serve(h http.Handler, refused func()) error {
	t.of.mu.Lock()
	t.h, t.refused = h, refused
	if !t.closed {
		t.of.now = t
	}
	t.of.mu.Unlock()
	<-t.over
	return http.ErrServerClosed
}

func (t *turn) Shutdown(ctx context.Context) error {
	t.end()
	select {
	case <-t.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) Close() error {
	t.end()
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	for _, end := range t.under {
		end()
	}
	return nil
}

// end closes the turn: it lets nothing in any more.
func (t *turn) end() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	close(t.over)
	if t.of.now == t {
		t.of.now = nil
	}
	t.rest()
}

// rest closes idle when there is nothing to wait for. of.mu must be held.
func (t *turn) rest() {
	if t.closed && len(t.under) == 0 {
		close(t.idle)
	}
}
