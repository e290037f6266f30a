package media

import (
	"sync"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// hosted are the bots whose files can be fetched.
type hosted struct {
	mu      sync.Mutex // guards the fields below
	bots    []platforms.Bot
	changes int
}

// Host makes bots those whose files are fetched. A fetch that has begun goes on.
func (h *hosted) Host(bots []platforms.Bot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bots = bots
	h.changes++
}

// changed is how often they changed.
func (h *hosted) changed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes
}

// fetcher is who opens files of a bot; nil: nobody.
func (h *hosted) fetcher(b relay.Bot) platforms.MediaFetcher {
	h.mu.Lock()
	bots := h.bots
	h.mu.Unlock()
	for _, p := range bots {
		if f, ok := p.(platforms.MediaFetcher); ok && p.ID() == b {
			return f
		}
	}
	return nil
}
