package delivery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

var errDisk = errors.New("disk trouble")

// fault makes one call of a buffer fail.
type fault struct {
	call   string // next, drop, death, bury
	effect bool   // the call does its work nevertheless
}

// memory is a Buffer in memory with the store's rules, and with faults on demand. It lets the
// simulation run thousands of steps without a sync for each.
type memory struct {
	mu      sync.Mutex
	seq     uint64
	entries []store.Entry
	dead    map[relay.BufferID]store.DeadReason
	faults  []fault
	reads   int
}

const (
	testEpoch = 7
	maxDeaths = 5
)

func newMemory() *memory { return &memory{dead: make(map[relay.BufferID]store.DeadReason)} }

func (m *memory) append(text string) relay.BufferID {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seq++
	id := relay.BufferID{Epoch: testEpoch, Seq: m.seq}
	chat, user := placeOf(text)
	e := store.Entry{
		Buffer: id, At: time.Now(), Frame: []byte(text), Forward: forwardOf(text), About: store.About{Bot: botOf(text), Chat: chat, User: user},
	}
	if isWhole(text) {
		e.Frame, e.Event = nil, &relay.Event{Text: text}
	}
	m.entries = append(m.entries, e)
	return id
}

// isWhole reports whether an entry with that text holds its event.
func isWhole(text string) bool {
	return slices.Contains([]string{"whole", "unfit", "unsettling"}, kindOf(text))
}

func (m *memory) buffered() []store.Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.entries)
}

// forwardLasts is how long the forwards of these tests are good.
const forwardLasts = 2 * time.Minute

// forwardOf is the forward of an entry with the text "forward"; nil for any other.
func forwardOf(text string) *store.Forward {
	if kindOf(text) != "forward" {
		return nil
	}
	return &store.Forward{Frame: []byte(text), Until: time.Now().Add(forwardLasts)}
}

// idsOf are the ids of entries.
func idsOf(entries []store.Entry) []relay.BufferID {
	ids := make([]relay.BufferID, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.Buffer)
	}
	return ids
}

// deathsOf is how often the entry id died, and whether it is buffered at all.
func deathsOf(entries []store.Entry, id relay.BufferID) (n int, ok bool) {
	i := slices.IndexFunc(entries, func(e store.Entry) bool { return e.Buffer == id })
	if i < 0 {
		return 0, false
	}
	return entries[i].Deaths, true
}

func (m *memory) reason(id relay.BufferID) (store.DeadReason, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	why, ok := m.dead[id]
	return why, ok
}

func (m *memory) heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = nil
}

func (m *memory) fail(f fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, f)
}

// do runs work, or the fault that waits for this call.
func (m *memory) do(ctx context.Context, call string, work func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if i := slices.IndexFunc(m.faults, func(f fault) bool { return f.call == call }); i >= 0 {
		f := m.faults[i]
		m.faults = slices.Delete(m.faults, i, i+1)
		if f.effect {
			work()
		}
		return errDisk
	}
	work()
	return nil
}

func (m *memory) indexLocked(id relay.BufferID) int {
	return slices.IndexFunc(m.entries, func(e store.Entry) bool { return e.Buffer == id })
}

func (m *memory) Next(ctx context.Context, _ relay.InstanceID, after uint64) (e store.Entry, ok bool, err error) {
	err = m.do(ctx, "next", func() {
		m.reads++
		if i := slices.IndexFunc(m.entries, func(e store.Entry) bool { return e.Buffer.Seq > after }); i >= 0 {
			e, ok = m.entries[i], true
		}
	})
	if err != nil {
		return store.Entry{}, false, err
	}
	return e, ok, nil
}

func (m *memory) Ack(ctx context.Context, _ relay.InstanceID, bs ...relay.BufferID) error {
	return m.do(ctx, "drop", func() {
		for _, b := range bs {
			if i := m.indexLocked(b); i >= 0 {
				m.entries = slices.Delete(m.entries, i, i+1)
			}
			delete(m.dead, b)
		}
	})
}

func (m *memory) Bury(ctx context.Context, _ relay.InstanceID, b relay.BufferID, why store.DeadReason) error {
	found := true
	err := m.do(ctx, "bury", func() {
		i := m.indexLocked(b)
		if found = i >= 0; found {
			m.buryLocked(i, why)
		}
	})
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return err
}

func (m *memory) Died(ctx context.Context, _ relay.InstanceID, bs ...relay.BufferID) (buried bool, err error) {
	found := false
	err = m.do(ctx, "death", func() {
		for _, b := range bs {
			i := m.indexLocked(b)
			if i < 0 {
				continue
			}
			found = true
			m.entries[i].Deaths++
			if buried = len(bs) == 1 && m.entries[i].Deaths >= maxDeaths; buried {
				m.buryLocked(i, store.DeadDeaths)
			}
		}
	})
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return buried, err
}

func (m *memory) buryLocked(i int, why store.DeadReason) {
	m.dead[m.entries[i].Buffer] = why
	m.entries = slices.Delete(m.entries, i, i+1)
}
