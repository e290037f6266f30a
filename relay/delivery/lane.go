// Package delivery empties an instance's buffer into its gateway: one Lane per instance, one
// Pump per session. "Live" is a short buffer, "away" is a buffer without a pump, and a crash, a
// reconnect and a sleep are the same case: a live path beside the buffer would race with it.
//
// It does not append (relay/inbound does, for all instances of a batch at once), does not know the format of a frame,
// and starts a goroutine only through the caller that starts a pump. A waiting pump has no goroutine.
//
// Invariants:
//
//  1. An entry leaves the buffer only when its gateway acknowledged it, as a dead letter, or as a forward that counts
//     as taken (see forward.go).
//  2. At most one pump of a lane pushes at a time: a new one waits until the previous returned.
//  3. Within one pump, entries of a conversation are pushed in the order of their sequence, each once; after a Resume
//     those in flight come once more, in their order, before any other. An entry that waits for its turn (turn.go), or
//     for the session to take it, holds up only the entries behind it in its conversation. An urgent entry and a
//     forward overtake it.
//  4. An acknowledgement counts only for an entry in flight on the lane's newest pump.
//  5. Nothing is pushed again on a timer: only a new pump, or a Resume, makes an unacknowledged
//     entry due.
//  6. At most Options.Window pushes are in flight besides forwards, and an acknowledged one stays in flight until
//     its deletion is committed. That costs a commit per push, and leaves at most one in doubt.
//  7. After Flip returned, nothing is pushed until Resume.
//  8. An entry that cannot be pushed is buried; it never stops the ones behind it.
//  9. A forward holds nobody up, and is written to sessions at most twice.
//  10. An entry that is being settled is not in flight. A flip, a stop and the end of the session end its wait at
//     once, and it is settled anew.
//  11. Several entries that are given as one event (join.go) are acknowledged together, under the id of the newest, in
//     one commit. In the buffer they stay separate entries, and a death that any of them may have caused buries none.
//
// A pump that waits takes the entry it is told of from memory, if that is the very next one; every other
// entry is read from the buffer, and nothing is read when nothing was appended.
package delivery

import (
	"cmp"
	"context"
	"log/slog"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// Buffer is the part of the store a lane needs; *store.Lanes has it. All methods may be called from
// several goroutines, return after the commit, and may return any error: the pump ends with it.
type Buffer interface {
	Next(ctx context.Context, i relay.InstanceID, after uint64) (store.Entry, bool, error)
	Ack(ctx context.Context, i relay.InstanceID, bs ...relay.BufferID) error
	Bury(ctx context.Context, i relay.InstanceID, b relay.BufferID, why store.DeadReason) error
	Died(ctx context.Context, i relay.InstanceID, bs ...relay.BufferID) (buried bool, err error)
}

var _ Buffer = (*store.Lanes)(nil)

// Options of a lane. The zero value is the default.
type Options struct {
	// Window is how many entries may be pushed and not yet acknowledged; 0 means 1.
	Window int
	Log    *slog.Logger // nil means discard
}

// Lane is one instance's way out of the buffer. Its methods may be called from any goroutine.
type Lane struct {
	// Set once, by NewLane.
	inst   relay.InstanceID
	buf    Buffer
	window int
	log    *slog.Logger

	mu      sync.Mutex    // guards the fields below, and those of every pump
	changed chan struct{} // closed and replaced whenever an Ack or a Flip that waits should look again
	waiters int           // how many wait in until
	pumps   []*Pump       // the first has the lease, the others wait for it
	newest  *Pump         // the pump that has the lease, or had it last; nil before the first
	told    uint64        // the newest sequence that Grown or Appended named
	offered []store.Entry // for the waiting pump to take, at most as many as may be in flight
	// deleting counts the deletions that are being committed, of any pump.
	deleting int
	forwards forwards
	ahead    uint64 // the newest sequence of a forward that Appended named; at most told
}

// NewLane makes the lane of inst over buf.
func NewLane(inst relay.InstanceID, buf Buffer, o Options) *Lane {
	log := cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("instance", inst)
	return &Lane{inst: inst, buf: buf, window: max(1, o.Window), log: log, changed: make(chan struct{})}
}

// Grown says that the entry of that sequence was appended and committed; 0: that several were. It never blocks.
func (l *Lane) Grown(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grownLocked(seq)
}

// Appended is Grown for a caller that has the entry at hand, as the buffer holds it.
func (l *Lane) Appended(e store.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pumps) > 0 && l.pumps[0].waitsForLocked(e) {
		l.offered = append(l.offered, e)
	}
	if e.Forward != nil {
		l.ahead = max(l.ahead, e.Buffer.Seq)
		defer l.changedLocked() // also when the sequence was named before
	}
	l.grownLocked(e.Buffer.Seq)
}

// grownLocked is Grown. l.mu must be held.
func (l *Lane) grownLocked(seq uint64) {
	switch {
	case seq == 0 && l.newest != nil:
		l.newest.dry = 0
	case seq != 0 && seq <= l.told:
		return // said before
	}
	l.told = max(l.told, seq)
	l.changedLocked()
}

// changedLocked makes everyone who waits for the lane to change look again. l.mu must be held.
func (l *Lane) changedLocked() {
	if l.waiters > 0 {
		close(l.changed)
		l.changed = make(chan struct{})
	}
	if len(l.pumps) > 0 {
		l.pumps[0].wakeLocked()
	}
}

// until waits for cond, which is called with l.mu held, or for the end of ctx, whose error it returns.
func (l *Lane) until(ctx context.Context, cond func() bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !cond() {
		changed := l.changed
		l.waiters++
		l.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		}
		l.mu.Lock()
		l.waiters--
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
