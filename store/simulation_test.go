package store

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/dedupe"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"pgregory.net/rapid"
)

// The simulation drives a database with random operations against a model made of slices. Events
// are named by ids; what the model cannot know, the epochs, it learns from what is handed out.

var simLimits = Limits{MaxEntries: 4, MaxDeaths: 2, MaxAge: 2 * day}

type simEntry struct {
	Buffer relay.BufferID
	Event  relay.EventID
	At     time.Time
	Deaths int
}

type simDead struct {
	simEntry
	Reason DeadReason
	DiedAt time.Time
}

type simLane struct {
	entries []simEntry
	dead    []simDead
	seq     uint64
	epochs  []uint64 // all there ever were, the present one last
	fresh   bool     // the next id must have an epoch that is not among them
	live    bool
}

type sim struct {
	path  string
	clock *clock
	db    *DB
	lanes map[relay.InstanceID]*simLane
	seen  map[relay.EventID]time.Time // the day it was seen
	days  map[time.Time]bool          // on which something was marked
	given map[relay.BufferID]relay.EventID
}

func TestSimulation(t *testing.T) { // invariants 3 to 7
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &sim{
			path: filepath.Join(t.TempDir(), "test.db"), clock: newClock(),
			lanes: map[relay.InstanceID]*simLane{}, seen: map[relay.EventID]time.Time{}, days: map[time.Time]bool{},
			given: map[relay.BufferID]relay.EventID{},
		}
		s.open(t)
		defer func() { closeChecked(t, s.db) }()
		for _, i := range []relay.InstanceID{"i1", "i2"} {
			enroll(t, s.db, i)
			s.lanes[i] = &simLane{live: true, fresh: true}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"":         s.check,
			"accept":   s.accept,
			"accept2":  s.accept, // more often than the rest
			"drop":     s.drop,
			"death":    s.death,
			"bury":     s.bury,
			"replay":   s.replay,
			"dropDead": s.dropDead,
			"revoke":   s.revoke,
			"revoke2":  s.revokeInstance,
			"spoil":    s.spoilMark,
			"enroll":   s.enroll,
			"sweep":    s.sweep,
			"time":     s.time,
			"reopen":   func(*rapid.T) { closeChecked(t, s.db); s.open(t) },
		})
	})
}

func (s *sim) open(t *testing.T) {
	t.Helper()
	db, err := Open(s.path, Options{Now: s.clock.now, Limits: simLimits})
	must.Succeed(t, err)
	s.db = db
}

func (s *sim) pick(t *rapid.T) (relay.InstanceID, *simLane) {
	i := rapid.SampledFrom([]relay.InstanceID{"i1", "i2"}).Draw(t, "instance")
	return i, s.lanes[i]
}

// pickBuffer draws a buffer id that was given out at some time.
func (s *sim) pickBuffer(t *rapid.T) relay.BufferID {
	if len(s.given) == 0 {
		t.Skip("nothing was given out yet")
	}
	all := make([]relay.BufferID, 0, len(s.given))
	for b := range s.given {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b relay.BufferID) int { return int(a.Seq) - int(b.Seq) })
	return rapid.SampledFrom(all).Draw(t, "buffer")
}

// learn checks a buffer id just given out and adds it to what the model knows.
func (s *sim) learn(t *rapid.T, l *simLane, b relay.BufferID, e relay.EventID) {
	t.Helper()
	l.seq++
	if b.Seq != l.seq || b.Epoch == 0 {
		t.Fatalf("got id %v, want sequence number %d", b, l.seq)
	}
	if known := slices.Contains(l.epochs, b.Epoch); known == l.fresh || !l.fresh && l.epochs[len(l.epochs)-1] != b.Epoch {
		t.Fatalf("got epoch %x; a new one is due: %v, so far %x", b.Epoch, l.fresh, l.epochs)
	}
	if l.fresh {
		l.epochs, l.fresh = append(l.epochs, b.Epoch), false
	}
	if old, taken := s.given[b]; taken {
		t.Fatalf("id %v meant %s before", b, old)
	}
	s.given[b] = e
}

func (l *simLane) die(s *sim, n int, why DeadReason) {
	l.dead = append(l.dead, simDead{l.entries[n], why, s.clock.now()})
	l.entries = slices.Delete(l.entries, n, n+1)
}

func (l *simLane) find(b relay.BufferID) int {
	return slices.IndexFunc(l.entries, func(e simEntry) bool { return e.Buffer == b })
}

func (l *simLane) findDead(b relay.BufferID) int {
	return slices.IndexFunc(l.dead, func(d simDead) bool { return d.Buffer == b })
}

func (l *simLane) trim(s *sim) (n int) {
	for ; len(l.entries) > simLimits.MaxEntries; n++ {
		l.die(s, 0, DeadOverflow)
	}
	return n
}

func (s *sim) accept(t *rapid.T) {
	a := Accept{Bot: bot}
	for range rapid.IntRange(1, 3).Draw(t, "items") {
		id := fmt.Sprintf("e%d", rapid.IntRange(0, 60).Draw(t, "event"))
		to := rapid.SampledFrom([][]relay.InstanceID{{}, {"i1"}, {"i2"}, {"i1", "i2"}}).Draw(t, "to")
		a.Items = append(a.Items, acceptFor(event(id, 300), to...).Items...)
	}
	out, err := s.db.Accept(t.Context(), a)
	must.Succeed(t, err)
	overflowed := map[relay.InstanceID]int{}
	for n, item := range a.Items {
		id, got := item.Delivery.About().ID, out.Items[n]
		if _, dup := s.seen[id]; dup != got.Duplicate {
			t.Fatalf("%s: duplicate %v, want %v", id, got.Duplicate, dup)
		}
		if got.Duplicate {
			continue
		}
		s.seen[id] = s.clock.now().Truncate(day)
		s.days[s.seen[id]] = true
		for d, delivery := range item.To {
			l := s.lanes[delivery.Instance]
			if !l.live {
				if !got.Buffers[d].IsZero() {
					t.Fatalf("%s was delivered to %s, which is revoked", id, delivery.Instance)
				}
				continue
			}
			s.learn(t, l, got.Buffers[d], id)
			l.entries = append(l.entries, simEntry{Buffer: got.Buffers[d], Event: id, At: s.clock.now()})
			if n := l.trim(s); n > 0 {
				overflowed[delivery.Instance] += n
			}
		}
	}
	if len(overflowed) != len(out.Overflowed) || len(overflowed) > 0 && !cmp.Equal(overflowed, out.Overflowed) {
		t.Fatalf("overflowed %v, want %v", out.Overflowed, overflowed)
	}
}

func (s *sim) drop(t *rapid.T) {
	i, l := s.pick(t)
	b := s.pickBuffer(t)
	must.Succeed(t, acknowledge(t.Context(), s.db, i, b))
	if n := l.find(b); n >= 0 {
		l.entries = slices.Delete(l.entries, n, n+1)
	} else if n := l.findDead(b); n >= 0 {
		l.dead = slices.Delete(l.dead, n, n+1)
	}
}

func (s *sim) death(t *rapid.T) {
	i, l := s.pick(t)
	b := s.pickBuffer(t)
	dead, err := s.db.Lanes.Died(t.Context(), i, b)
	n := l.find(b)
	if n < 0 {
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("death of nothing: %v", err)
		}
		return
	}
	l.entries[n].Deaths++
	want := l.entries[n].Deaths == simLimits.MaxDeaths
	if err != nil || dead != want {
		t.Fatalf("death: %v %v, want %v", dead, err, want)
	}
	if dead {
		l.die(s, n, DeadDeaths)
	}
}

func (s *sim) bury(t *rapid.T) {
	i, l := s.pick(t)
	b := s.pickBuffer(t)
	n := l.find(b)
	if err := s.db.Lanes.Bury(t.Context(), i, b, DeadPoison); (err == nil) != (n >= 0) || (err != nil) != errors.Is(err, ErrNotFound) {
		t.Fatalf("buried: %v; it is entry %d", err, n)
	}
	if n >= 0 {
		l.die(s, n, DeadPoison)
	}
}

func (s *sim) replay(t *rapid.T) {
	i, l := s.pick(t)
	var which []relay.BufferID
	back := slices.Clone(l.dead)
	if len(l.dead) > 0 && rapid.Bool().Draw(t, "one") {
		n := rapid.IntRange(0, len(l.dead)-1).Draw(t, "which")
		which, back = append(which, l.dead[n].Buffer), back[n:n+1]
	}
	if l.live {
		back = back[:min(len(back), simLimits.MaxEntries-len(l.entries))]
	}
	n, err := s.db.Lanes.Replay(t.Context(), nil, i, which...)
	if !l.live {
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("replay for a revoked instance: %v %v", n, err)
		}
		return
	}
	if err != nil || n.Moved != len(back) {
		t.Fatalf("replayed %v, %v; want %d", n, err, len(back))
	}
	if n.Moved == 0 {
		return
	}
	// The new ids are read back.
	l.dead = slices.DeleteFunc(l.dead, func(d simDead) bool {
		return slices.ContainsFunc(back, func(b simDead) bool { return b.Buffer == d.Buffer })
	})
	epoch := l.epochs
	if l.fresh { // not used since it was enrolled again
		es, err := s.db.Lanes.Entries(t.Context(), i, EntryFilter{Limit: 1})
		if err != nil || len(es) == 0 {
			t.Fatal(es, err)
		}
		epoch = append(epoch, es[0].Buffer.Epoch)
	}
	for _, b := range back {
		id := relay.BufferID{Epoch: epoch[len(epoch)-1], Seq: l.seq + 1}
		s.learn(t, l, id, b.Event)
		l.entries = append(l.entries, simEntry{Buffer: id, Event: b.Event, At: s.clock.now()})
	}
}

func (s *sim) dropDead(t *rapid.T) {
	i, l := s.pick(t)
	if n, err := s.db.Lanes.Drop(t.Context(), nil, i); err != nil || n != len(l.dead) {
		t.Fatalf("dropped %d, %v; want %d", n, err, len(l.dead))
	}
	l.dead = nil
}

func (s *sim) revoke(t *rapid.T) {
	i, l := s.pick(t)
	if _, err := s.db.Revoke(t.Context(), nil, i, relay.GatewayID(i)); err != nil {
		t.Fatal(err)
	}
	l.close(s)
}

func (s *sim) revokeInstance(t *rapid.T) {
	i, l := s.pick(t)
	ids, err := s.db.Revoke(t.Context(), nil, i)
	if err != nil || l.live != slices.Equal(ids, []relay.GatewayID{relay.GatewayID(i)}) || !l.live && ids != nil {
		t.Fatalf("revoked %v, %v; live %v", ids, err, l.live)
	}
	l.close(s)
}

func (l *simLane) close(s *sim) {
	for len(l.entries) > 0 {
		l.die(s, 0, DeadRemoved)
	}
	l.live = false
}

// spoilMark flips a bit in a seen mark: from then on its event was never seen.
func (s *sim) spoilMark(t *rapid.T) {
	if len(s.seen) == 0 {
		t.Skip("nothing was seen yet")
	}
	id := rapid.SampledFrom(slices.Sorted(maps.Keys(s.seen))).Draw(t, "mark")
	at := rapid.IntRange(0, dedupe.Stored-1).Draw(t, "byte")
	err := s.db.change(t.Context(), nil, "test", func(x *tx) error {
		return spoilMark(x, dedupe.Of(bot, id), func(m []byte) { m[at] ^= 1 })
	})
	if err == nil {
		err = s.db.PutBlob(t.Context(), "after the damage", nil) // or an Open would fall back to before it
	}
	must.Succeed(t, err)
	s.db.Seen.Forget() // the file is what counts
	delete(s.seen, id)
}

func (s *sim) enroll(t *rapid.T) {
	i, l := s.pick(t)
	err := s.db.Enroll(t.Context(), nil, Gateway{ID: relay.GatewayID(i)}, Instance{ID: i, Tenant: relay.DefaultTenant})
	if l.live {
		if !errors.Is(err, ErrExists) {
			t.Fatalf("enrolled twice: %v", err)
		}
		return
	}
	must.Succeed(t, err)
	l.live, l.fresh = true, true
}

func (s *sim) time(t *rapid.T) {
	s.clock.add(time.Duration(rapid.IntRange(1, 30).Draw(t, "hours")) * time.Hour)
}

func (s *sim) sweep(t *rapid.T) {
	got, err := s.db.Sweep(t.Context())
	must.Succeed(t, err)
	now := s.clock.now()
	var want Swept
	past := func(d time.Time) bool { return now.Truncate(day).Sub(d) > dedupe.Days*day }
	sound := map[time.Time]bool{} // days past that have a mark; of the others all were spoilt, and may be gone
	for _, d := range s.seen {
		if past(d) {
			sound[d] = true
		}
	}
	maps.DeleteFunc(s.seen, func(_ relay.EventID, d time.Time) bool { return past(d) })
	all := len(s.days)
	maps.DeleteFunc(s.days, func(d time.Time, _ bool) bool { return past(d) })
	if want.SeenDays = got.SeenDays; got.SeenDays < len(sound) || got.SeenDays > all-len(s.days) {
		t.Fatalf("swept the marks of %d days, want %d to %d", got.SeenDays, len(sound), all-len(s.days))
	}
	for _, l := range s.lanes {
		for len(l.entries) > 0 && now.Sub(l.entries[0].At) > simLimits.MaxAge {
			if !l.live {
				t.Fatal("a revoked lane holds entries")
			}
			l.die(s, 0, DeadAge)
			want.Expired++
		}
		before := len(l.dead)
		l.dead = slices.DeleteFunc(l.dead, func(d simDead) bool { return now.Sub(d.DiedAt) > keepDead })
		want.DeadDropped += before - len(l.dead)
	}
	if got.Conversations = 0; got != want { // the model does not keep conversations
		t.Fatalf("swept %+v, want %+v", got, want)
	}
}

// check compares the whole of what is stored with the model.
func (s *sim) check(t *rapid.T) {
	for i, l := range s.lanes {
		es, err := s.db.Lanes.Entries(t.Context(), i, EntryFilter{})
		must.Succeed(t, err)
		var got []simEntry
		for _, e := range es {
			got = append(got, simEntry{e.Buffer, e.About.ID, e.At, e.Deaths})
		}
		if !slices.Equal(got, l.entries) {
			t.Fatalf("lane %s: %s", i, cmp.Diff(l.entries, got))
		}
		ds, err := s.db.Lanes.Entries(t.Context(), i, EntryFilter{Dead: true})
		must.Succeed(t, err)
		var dead []simDead
		for _, d := range ds {
			dead = append(dead, simDead{simEntry{d.Buffer, d.About.ID, d.At, d.Deaths}, d.Reason, d.DiedAt})
		}
		if !slices.Equal(dead, l.dead) {
			t.Fatalf("dead letters of %s: %s", i, cmp.Diff(l.dead, dead))
		}
		after := uint64(0)
		if n := len(l.entries); n > 1 {
			after = l.entries[n-2].Buffer.Seq
		}
		e, ok, err := s.db.Lanes.Next(t.Context(), i, after)
		if err != nil || ok != (len(l.entries) > 0) || ok && e.Buffer != l.entries[len(l.entries)-1].Buffer {
			t.Fatalf("next of %s after %d: %v %v %v", i, after, e.Buffer, ok, err)
		}
		lane, err := s.db.Lanes.State(t.Context(), i)
		if err != nil || lane.Entries != len(l.entries) || lane.Dead != len(l.dead) {
			t.Fatalf("lane %s: %+v %v", i, lane, err)
		}
	}
	for n := range 61 {
		id := relay.EventID(fmt.Sprintf("e%d", n))
		_, want := s.seen[id]
		if seen, err := s.db.Seen.Has(t.Context(), bot, id); err != nil || seen != want {
			t.Fatalf("seen %s: %v %v, want %v", id, seen, err, want)
		}
	}
}
