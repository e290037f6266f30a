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

// presses remembers which people were told about their presses, and which are still to be told. The zero value is
// ready.
type presses struct {
	mu      sync.Mutex                              // guards the fields below
	told    map[pressID]bool                        // presses that had no effect and whose people were told so
	waiting map[pressID]func(relay.EventID, string) // undecided: how their people are told
}

// maxTold is how many presses are remembered so that nobody is told twice, and how many people wait to be told.
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

// decided returns the function that tells the person the verdict; nil: they are not told.
func (p *presses) decided(id pressID) func(relay.EventID, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tell := p.waiting[id]
	delete(p.waiting, id)
	return tell
}

// first reports whether nobody was told about the press before, and notes that somebody is told now.
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
