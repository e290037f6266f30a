package inbound

import (
	"maps"
	"slices"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// judges are the workers that decide undecided events, for which only the network's answer about who sees their chat is
// missing. There is one worker for each chat with such events, so that a chat about which the network says nothing
// holds up nobody else. The zero value is ready; before begin and after end it only notes the chats.
type judges struct {
	mu    sync.Mutex // guards the fields below
	start func(relay.Chat)
	by    map[relay.Chat]bool // the chats with a worker, if start is set; true: it must look once more
}

func (j *judges) begin(start func(relay.Chat)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.start, j.by = start, nil
}

func (j *judges) end() { j.begin(nil) }

// call makes a worker look at the chat. It does not block.
func (j *judges) call(c relay.Chat) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.by == nil {
		j.by = make(map[relay.Chat]bool)
	}
	_, busy := j.by[c]
	j.by[c] = busy
	if !busy && j.start != nil {
		j.start(c)
	}
}

// chats are those with a worker, or that wait for one.
func (j *judges) chats() []relay.Chat {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Collect(maps.Keys(j.by))
}

// done ends the worker of a chat that has nothing undecided left, unless it is to look once more.
func (j *judges) done(c relay.Chat) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.by[c] {
		j.by[c] = false
		return false
	}
	delete(j.by, c)
	return true
}
