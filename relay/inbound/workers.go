package inbound

import (
	"maps"
	"slices"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// workers decide undecided events, for which only the network's answer about who sees their chat is missing. There is
// one worker for each chat with such events, so that a chat about which the network says nothing holds up nobody else.
// The zero value is ready; before begin and after end it only notes the chats.
type workers struct {
	mu    sync.Mutex // guards the fields below
	start func(relay.Chat)
	by    map[relay.Chat]bool // the chats with a worker, if start is set; true: it must look once more
}

func (ws *workers) begin(start func(relay.Chat)) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.start, ws.by = start, nil
}

func (ws *workers) end() { ws.begin(nil) }

// call makes a worker look at the chat. It does not block.
func (ws *workers) call(c relay.Chat) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.by == nil {
		ws.by = make(map[relay.Chat]bool)
	}
	_, busy := ws.by[c]
	ws.by[c] = busy
	if !busy && ws.start != nil {
		ws.start(c)
	}
}

// chats returns the chats that have a worker or wait for one.
func (ws *workers) chats() []relay.Chat {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.Collect(maps.Keys(ws.by))
}

// done ends the worker of a chat that has nothing undecided left, and returns true; or it returns false: the worker has
// to look once more.
func (ws *workers) done(c relay.Chat) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.by[c] {
		ws.by[c] = false
		return false
	}
	delete(ws.by, c)
	return true
}
