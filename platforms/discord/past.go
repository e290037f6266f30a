package discord

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// maxPast is how many ids are remembered.
const maxPast = 4096

// past are the newest ids of which Discord has no message: those of interactions, and those that it said so of. A
// gateway reacts to every event it takes, and each refused request counts against the bot. Methods may be called from
// any goroutine.
type past struct {
	mu   sync.Mutex // guards the fields below
	ids  map[relay.MessageID]struct{}
	ring []relay.MessageID // of ids; the oldest is at next
	next int
}

func (p *past) note(id relay.MessageID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.ids[id]; ok {
		return
	}
	if p.ids == nil {
		p.ids = make(map[relay.MessageID]struct{})
	}
	if len(p.ring) < maxPast {
		p.ring = append(p.ring, id)
	} else {
		delete(p.ids, p.ring[p.next])
		p.ring[p.next] = id
		p.next = (p.next + 1) % maxPast
	}
	p.ids[id] = struct{}{}
}

func (p *past) has(id relay.MessageID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.ids[id]
	return ok
}
