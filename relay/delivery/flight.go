package delivery

import (
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// entry is one entry in flight, or several joined ones: its id is that of the newest.
type entry struct {
	id       relay.BufferID
	parts    []part // oldest first
	where    Conversation
	queued   bool        // push returned: from now on the gateway may have seen it
	due      bool        // to be pushed once more, after a Resume
	again    bool        // pushed before a Resume too, so the gateway may have seen it
	acked    bool        // acknowledged; its deletion may not have begun
	deleting bool        // its deletion is being committed
	forward  bool        // it went as a forward
	out      bool        // a forward: in the outbox, so neither written nor dropped
	life     *time.Timer // a forward that was written: it counts as taken when this fires
}

// isDue reports whether e is still to be pushed once more.
func (e entry) isDue() bool { return e.due && !e.acked }

// flight holds the entries in flight, in the order of their first push: pushed and not yet deleted. Its lane's lock
// guards it.
type flight struct {
	entries []entry
	gone    []relay.BufferID // deleted during a push: the entry being read may be one of them
}

// ordinary counts the entries in flight that fill the window.
func (f *flight) ordinary() (n int) {
	for _, e := range f.entries {
		if !e.forward {
			n++
		}
	}
	return n
}

// part is an entry of a load.
type part struct {
	id    relay.BufferID
	about store.About
}

// bufferIDs returns the ids of the parts.
func bufferIDs(parts []part) []relay.BufferID {
	ids := make([]relay.BufferID, len(parts))
	for n, x := range parts {
		ids[n] = x.id
	}
	return ids
}

// load is what is pushed under one id: an entry, or several joined ones.
type load struct {
	store.Entry              // in its pushed form; the id is that of its newest part
	parts       []part       // oldest first
	settles     bool         // settling it may take time
	waited      bool         // its parts are among those that wait
	where       Conversation // set if it was joined, waited or begins a turn
	turn        bool         // it begins a turn that is waited for
}

func newLoad(e store.Entry) *load {
	return &load{Entry: e, parts: []part{{e.Buffer, e.About}}, settles: e.Event != nil}
}

// oldest returns the index of the entry in flight that was pushed first and is not acknowledged, or -1. Forwards do not
// count.
func (f *flight) oldest() int {
	return slices.IndexFunc(f.entries, func(e entry) bool { return !e.acked && !e.forward })
}

// index returns the index of id in flight, or -1.
func (f *flight) index(id relay.BufferID) int {
	return slices.IndexFunc(f.entries, func(e entry) bool { return e.id == id })
}

// knows reports whether the entry is in flight, itself or as a part, or was when the pump began its present task.
func (f *flight) knows(id relay.BufferID) bool {
	return slices.Contains(f.gone, id) || slices.ContainsFunc(f.entries, func(e entry) bool {
		return slices.ContainsFunc(e.parts, func(x part) bool { return x.id == id })
	})
}

// remove takes id out of the entries in flight, if it is there.
func (f *flight) remove(id relay.BufferID) {
	if i := f.index(id); i >= 0 {
		f.entries = slices.Delete(f.entries, i, i+1)
	}
}

// stop ends the wait that liveLocked began.
func (e *entry) stop() {
	if e.life != nil {
		e.life.Stop()
		e.life = nil
	}
}
