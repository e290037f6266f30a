package limits

import (
	"net/netip"
	"sync"
)

// Share bounds how many connections or requests callers hold at a time: all of them together, and each address. Its
// methods may be called from any goroutine.
type Share struct {
	// Set once, by NewShare. 0 is no bound.
	all, each int

	mu   sync.Mutex // guards the fields below
	held int
	by   map[netip.Prefix]int // no value is 0, so that it has at most held keys
}

// NewShare makes a Share with these bounds for all callers together and for each address; 0 is no bound.
func NewShare(all, each int) *Share {
	return &Share{all: all, each: each, by: make(map[netip.Prefix]int)}
}

// Enter counts a connection or request from a, unless there are too many. If ok, leave must be called once, at its end.
// Callers whose address is unknown count only for the total.
func (s *Share) Enter(a netip.Addr) (leave func(), ok bool) {
	from := neighbourhood(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all > 0 && s.held >= s.all || s.each > 0 && from.IsValid() && s.by[from] >= s.each {
		return nil, false
	}
	s.held++
	s.by[from]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held--
		if s.by[from]--; s.by[from] == 0 {
			delete(s.by, from)
		}
	}, true
}
