package delivery

import (
	"maps"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// pushes counts how often one forward was pushed, over all sessions.
type pushes struct {
	begun   int  // how often it was put into an outbox, less those that the outbox dropped
	written int  // how often it was written to a socket
	taken   bool // it counts as taken, and has only to be deleted
}

// forwards counts the pushes of each forward that was pushed and is not deleted. Their lane's lock guards them.
type forwards map[relay.BufferID]*pushes

// form is how an entry is pushed now, if at all.
type form int

const (
	asEvent form = iota
	asForward
	notNow // it waits: its last push is in an outbox, which may still drop it
	taken  // not at all: it has only to be deleted
)

// form returns how e is pushed now.
func (f forwards) form(e store.Entry) form {
	n := f[e.Buffer]
	switch {
	case e.Forward == nil:
		return asEvent
	case n != nil && n.taken:
		return taken
	case n != nil && n.begun >= maxPushes:
		return notNow
	case !time.Now().Before(e.Forward.Until):
		return asEvent
	}
	return asForward
}

// forget forgets the forwards between two sequences, which the buffer does not have any more.
func (f forwards) forget(after, before uint64) {
	maps.DeleteFunc(f, func(id relay.BufferID, _ *pushes) bool { return after < id.Seq && id.Seq < before })
}
