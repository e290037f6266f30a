package rest

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// maxAbsent is how many message ids are remembered.
const maxAbsent = 4096

// Absent remembers the newest ids for which Discord has no message: those of interactions, and those that Discord
// reported. A gateway reacts to every event that it takes, and each refused request counts against the bot. Methods may
// be called from any goroutine.
type Absent struct {
	mu   sync.Mutex // guards the fields below
	ids  map[relay.MessageID]struct{}
	ring []relay.MessageID // of ids; the oldest is at next
	next int
}

// Note remembers id.
func (p *Absent) Note(id relay.MessageID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.ids[id]; ok {
		return
	}
	if p.ids == nil {
		p.ids = make(map[relay.MessageID]struct{})
	}
	if len(p.ring) < maxAbsent {
		p.ring = append(p.ring, id)
	} else {
		delete(p.ids, p.ring[p.next])
		p.ring[p.next] = id
		p.next = (p.next + 1) % maxAbsent
	}
	p.ids[id] = struct{}{}
}

// Has reports whether id is remembered.
func (p *Absent) Has(id relay.MessageID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.ids[id]
	return ok
}
