// Package absent remembers messages that Discord has not, so that it is not asked for them again.
package absent

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Most is how many ids are remembered.
const Most = 4096

// Messages are the newest ids of which Discord has no message: those of interactions, and those that it said so of. A
// gateway reacts to every event it takes, and each refused request counts against the bot. Methods may be called from
// any goroutine.
type Messages struct {
	mu   sync.Mutex // guards the fields below
	ids  map[relay.MessageID]struct{}
	ring []relay.MessageID // of ids; the oldest is at next
	next int
}

// Note remembers id.
func (p *Messages) Note(id relay.MessageID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.ids[id]; ok {
		return
	}
	if p.ids == nil {
		p.ids = make(map[relay.MessageID]struct{})
	}
	if len(p.ring) < Most {
		p.ring = append(p.ring, id)
	} else {
		delete(p.ids, p.ring[p.next])
		p.ring[p.next] = id
		p.next = (p.next + 1) % Most
	}
	p.ids[id] = struct{}{}
}

// Has reports whether id is remembered.
func (p *Messages) Has(id relay.MessageID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.ids[id]
	return ok
}
