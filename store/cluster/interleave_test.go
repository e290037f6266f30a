package cluster

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

var (
	worlds    = flag.Int("worlds", long.Pick(3, 15), "how many worlds TestInterleavings has")
	worldSeed = flag.Uint64("worlds.seed", 0, "the first one's seed")
)

// TestInterleavings has the writers of three nodes, their appends and their step-downs meet in any order, with an engine that
// does to them what networks and PostgreSQL do. In every world
//
//   - what a writer was told is stored, and what anybody read, is in the file of each leader afterwards, and in the log at the end;
//   - once a node leads, no other has the network do anything; but within a lease after the engine's clock jumped;
//   - the log is one chain, which whoever replays it comes to the same file with.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	var sum world
	for n := range *worlds {
		dir, seed := t.TempDir(), *worldSeed+uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed, dir)
				w.passes(5 * time.Minute)
				sum.stored, sum.led, sum.fenced, sum.calls = sum.stored+len(w.known), sum.led+w.led, sum.fenced+w.fenced, sum.calls+w.calls
			})
		})
	}
	t.Logf("%d writes stored, %d leads, %d processes ended since they might not lead, %d calls", sum.stored, sum.led, sum.fenced, sum.calls)
	if sum.led < 10 || sum.fenced < 5 || sum.stored < 500 || sum.calls < 1000 {
		t.Error("hardly anything happened")
	}
}

// worldLease is the lease in a world.
const worldLease = 6 * time.Second

// world is three nodes and their engine.
type world struct {
	t      *testing.T
	engine *memoryEngine
	dir    string
	rand   *rand.Rand

	mu                               sync.Mutex       // guards the fields below
	known                            map[string]bool  // what was told or read
	leads                            *life            // who leads now
	jumped                           time.Time        // the engine's clock
	living                           map[string]*life // by node
	next, stored, led, fenced, calls int
}

// life is one process of a node.
type life struct {
	w     *world
	name  string
	node  *Node
	dead  bool // guarded by the engine's lock
	slept time.Duration
	ended context.Context
	end   context.CancelFunc
	kill  func()
}

func newWorld(t *testing.T, seed uint64, dir string) *world {
	return &world{
		t: t, engine: newMemoryEngine(t, seed), dir: dir, rand: rand.New(rand.NewPCG(seed, 2)),
		known: make(map[string]bool), living: make(map[string]*life),
	}
}

// passes has things happen for so long.
func (w *world) passes(long time.Duration) {
	ctx, stop := context.WithTimeout(context.Background(), long)
	defer stop()
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		wg.Go(func() {
			for ctx.Err() == nil {
				w.live(ctx, name)
				_ = sleep(ctx, w.upTo(2*time.Second))
			}
		})
	}
	for sleep(ctx, w.upTo(15*time.Second)) == nil {
		w.happens()
	}
	wg.Wait()
	w.engine.serving.Wait()
	w.judge()
}

func (w *world) upTo(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.rand.Int64N(int64(d)))
}

// happens has one thing go wrong.
func (w *world) happens() {
	w.mu.Lock()
	leads, dice, some, more := w.leads, w.rand.IntN(8), time.Duration(w.rand.Int64N(int64(12*time.Second))), w.rand.IntN(2) == 0
	w.mu.Unlock()
	e := w.engine
	switch {
	case dice == 0:
		e.breaks(nil)
	case dice == 1: // a cut, in which what is sent waits
		e.mu.Lock()
		e.frozen, e.frozenOf = time.Now().Add(some), nil
		if more && leads != nil {
			e.frozenOf = &leads.dead
		}
		e.mu.Unlock()
	case dice < 4:
		if more {
			e.mu.Lock()
			e.cancels = time.Now().Add(some / 4)
			e.mu.Unlock()
			time.Sleep(some / 4)
		}
		if dice == 3 {
			e.promotes()
		}
	case dice == 4:
		e.mu.Lock()
		e.ahead = some - 6*time.Second
		if more {
			e.ahead *= 14400
		}
		e.mu.Unlock()
		w.mu.Lock()
		w.jumped = time.Now()
		w.mu.Unlock()
	case leads == nil:
	case dice == 5:
		leads.kill()
	case dice == 6: // its machine sleeps; it has not noticed anything when it wakes
		w.mu.Lock()
		leads.slept += 24 * time.Hour
		w.mu.Unlock()
	case dice == 7:
		leads.end()
	}
}

// live is the life of one process.
func (w *world) live(ctx context.Context, name string) {
	n, err := Join(Options{DSN: relay.NewSecret([]byte("postgres://u@127.0.0.1/d?sslmode=disable")), Node: name, Version: "test", Lease: worldLease, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)).With("node", name)})
	if err != nil {
		w.t.Error(err)
		return
	}
	began := time.Now()
	l := &life{w: w, name: name, node: n}
	w.engine.reaches(n, &l.dead)
	n.now = func() time.Duration {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Since(began) + l.slept
	}
	l.ended, l.end = context.WithCancel(ctx)
	defer l.end()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.kill = func() {
		w.mu.Lock()
		if w.leads == l {
			w.leads = nil
		}
		w.mu.Unlock()
		w.engine.mu.Lock()
		l.dead = true
		w.engine.mu.Unlock()
		n.until.Store(0)
		w.engine.breaks(&l.dead)
		l.end()
		stop()
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := n.Run(running); err != nil && running.Err() == nil {
			w.mu.Lock()
			w.fenced++
			w.mu.Unlock()
			l.kill() // as the program ends
		}
	})
	_ = n.Lead(l.ended, []Shard{l.shard()})
	stop()
	wg.Wait()
	if !l.isDead() {
		_ = n.Release(context.WithoutCancel(ctx))
	}
	l.kill()
}

func (l *life) isDead() bool {
	l.w.engine.mu.Lock()
	defer l.w.engine.mu.Unlock()
	return l.dead
}

// writing is a boltfile.Batch that stores nothing beside what its ops do.
type writing struct{ *boltfile.Writer }

func (writing) Settle(bool) error { return nil }
func (writing) Done(bool)         {}

func (l *life) shard() Shard {
	return Shard{
		Name: "main", Weight: 1, Path: filepath.Join(l.w.dir, l.name+".db"), Opens: func(context.Context, []byte) error { return nil }, Run: l.serves,
		File: boltfile.Options{
			MaxSize: 16 << 20, LockTimeout: time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler), OpenFile: os.OpenFile,
			Format: boltfile.Format{
				Schema: 1,
				Fill: func(t *bolt.Tx) error {
					_, err := t.CreateBucket([]byte(boltfile.MetaBucket))
					return err
				},
				Prepare: func(*bolt.DB, []boltfile.Damaged) error { return nil },
				Begin:   func(w *boltfile.Writer) boltfile.Batch { return writing{w} },
			},
		},
	}
}

const written = "written"

// serves is Shard.Run: writers, readers and calls, until it is to end.
func (l *life) serves(ctx context.Context, lead *Lead) error {
	w, s := l.w, l.shard()
	s.File.CommitLog = lead.Log()
	f, err := boltfile.Open(s.Path, s.File)
	if err != nil {
		return err
	}
	w.begins(l, f)
	ctx, end := context.WithCancel(ctx)
	defer end()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for sleep(ctx, w.upTo(600*time.Millisecond)) == nil && l.writes(f) {
			}
			end()
		})
	}
	wg.Go(func() {
		for sleep(ctx, w.upTo(time.Second)) == nil {
			l.reads(f)
		}
	})
	wg.Go(func() {
		for sleep(ctx, w.upTo(100*time.Millisecond)) == nil {
			if lead.Alive() && !l.isDead() {
				w.called(l)
			}
		}
	})
	wg.Wait()
	w.mu.Lock()
	if w.leads == l {
		w.leads = nil
	}
	w.mu.Unlock()
	if err := f.Close(nil); err != nil && !errors.Is(err, boltfile.ErrFailed) {
		w.t.Error(err)
	}
	return f.Err()
}

// begins notes that l leads now: its file has all that was told or read.
func (w *world) begins(l *life, f *boltfile.File) {
	err := f.Read(context.WithoutCancel(l.ended), func(t *bolt.Tx) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if l.isDead() || !w.engine.ledBy(l.node) { // its clock jumped, and another one leads already, of which l hears soon
			return nil
		}
		for k := range w.known {
			if b := t.Bucket([]byte(written)); b == nil || b.Get([]byte(k)) == nil {
				w.t.Errorf("node %s leads without %s", l.name, k)
			}
		}
		w.leads = l
		w.led++
		return nil
	})
	if err != nil {
		w.t.Error(err)
	}
}

// called notes a call of a network.
func (w *world) called(l *life) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	if w.leads != nil && w.leads != l && time.Since(w.jumped) > worldLease {
		w.t.Errorf("node %s calls, and %s leads", l.name, w.leads.name)
	}
}

// writes stores the next record. false: the file takes no more.
func (l *life) writes(f *boltfile.File) bool {
	w := l.w
	w.mu.Lock()
	w.next++
	k := fmt.Sprintf("%06d", w.next)
	w.mu.Unlock()
	err := f.Do(context.WithoutCancel(l.ended), &boltfile.Op{Run: func(b boltfile.Batch) error {
		return b.(writing).PutSealed(written, []byte(k), boltfile.Seal([]byte(k), []byte(l.name)))
	}})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && !l.isDead() {
		w.known[k] = true
	}
	return err == nil
}

// reads notes what can be read.
func (l *life) reads(f *boltfile.File) {
	w := l.w
	err := f.Read(context.WithoutCancel(l.ended), func(t *bolt.Tx) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if b := t.Bucket([]byte(written)); b != nil && !l.isDead() {
			return b.ForEach(func(k, _ []byte) error { w.known[string(k)] = true; return nil })
		}
		return nil
	})
	if err != nil && !errors.Is(err, boltfile.ErrFailed) {
		w.t.Error(err)
	}
}

// judge replays the log.
func (w *world) judge() {
	entries := w.engine.logEntries()
	f, err := boltfile.Follow(filepath.Join(w.dir, "replayed.db"), (&life{w: w}).shard().File)
	if err == nil {
		err = f.Apply(entries...)
	}
	if err != nil {
		w.t.Error(err)
	}
	if at := f.At(); !bytes.Equal(at.Chain[:], w.engine.state.shard.chain) {
		w.t.Errorf("the log ends with another chain than its shard has")
	}
	if err := f.Close(); err != nil {
		w.t.Error(err)
	}
	b, err := boltfile.OpenBolt(filepath.Join(w.dir, "replayed.db"), (&life{w: w}).shard().File)
	must.Succeed(w.t, err)
	defer b.Close()
	left := maps.Clone(w.known)
	_ = b.View(func(t *bolt.Tx) error {
		if b := t.Bucket([]byte(written)); b != nil {
			return b.ForEach(func(k, _ []byte) error { delete(left, string(k)); return nil })
		}
		return nil
	})
	for k := range left {
		w.t.Errorf("%s is not in the log", k)
	}
}
