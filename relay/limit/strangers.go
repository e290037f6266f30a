package limit

import (
	"net/netip"
	"sync"
)

// MaxStrangers is how many requests of one address may be read at a time before it is known who
// is asking.
const MaxStrangers = 16

// Strangers bounds, per address, the requests whose bodies have to be read before there is a
// credential to judge, so that one address cannot fill the memory with unfinished ones. The zero
// value is ready; its methods may be called from any goroutine.
type Strangers struct {
	mu sync.Mutex           // guards in
	in map[netip.Prefix]int // never 0: bounded by the requests under way
}

// Enter counts a request in, unless its address has too many. ok says that leave must be called
// when it is done.
func (s *Strangers) Enter(a netip.Addr) (leave func(), ok bool) {
	key := Neighbourhood(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in[key] >= MaxStrangers {
		return nil, false
	}
	if s.in == nil {
		s.in = make(map[netip.Prefix]int)
	}
	s.in[key]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.in[key]--; s.in[key] == 0 {
			delete(s.in, key)
		}
	}, true
}
