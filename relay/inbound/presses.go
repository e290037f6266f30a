package inbound

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// pressID names a press.
type pressID struct {
	bot   relay.Bot
	event relay.EventID
}

// presses are those about which something is still to be done. The zero value is ready.
type presses struct {
	mu      sync.Mutex                              // guards the fields below
	told    map[pressID]bool                        // whose people were told that they came to nothing
	waiting map[pressID]func(relay.EventID, string) // undecided: how their people are told
}

// maxTold bounds what is remembered to tell nobody twice, and whom to tell.
const maxTold = 4096

// wait notes how the person is told once the press is decided about.
func (p *presses) wait(id pressID, tell func(relay.EventID, string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil || len(p.waiting) >= maxTold {
		p.waiting = make(map[pressID]func(relay.EventID, string))
	}
	p.waiting[id] = tell
}

// decided is how the person is told of the verdict; nil: they are not.
func (p *presses) decided(id pressID) func(relay.EventID, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tell := p.waiting[id]
	delete(p.waiting, id)
	return tell
}

// first reports whether nobody was told about the press before.
func (p *presses) first(id pressID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told[id] {
		return false
	}
	if p.told == nil || len(p.told) >= maxTold {
		p.told = make(map[pressID]bool)
	}
	p.told[id] = true
	return true
}
