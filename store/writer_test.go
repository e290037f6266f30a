package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/audit"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

// hold occupies the writer with an op of its own until release is called.
func hold(t *testing.T, db *DB) (release func()) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	o := push(t, db, &op{fn: func(*tx) error {
		close(begun)
		<-end
		return nil
	}})
	<-begun
	return func() {
		close(end)
		if err := o.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// op is a change, and its row of the audit list.
type op struct {
	fn  func(*tx) error
	row *audit.Entry
}

// push queues o as DB.change does.
func push(t *testing.T, db *DB, o *op) *boltfile.Op {
	t.Helper()
	q := &boltfile.Op{Run: func(b boltfile.Batch) error {
		_, err := b.(*tx).audited(o.row, o.fn)
		return err
	}}
	must.Succeed(t, db.records.File.Push(q))
	return q
}

// line queues ops in this order and returns where their outcomes arrive.
func line(t *testing.T, db *DB, fns ...func(*tx) error) []*boltfile.Op {
	t.Helper()
	var out []*boltfile.Op
	for _, fn := range fns {
		out = append(out, push(t, db, &op{fn: fn}))
	}
	return out
}

// waiting returns once n ops are queued.
func waiting(db *DB, n int) {
	for db.records.File.Stats().Waiting < n {
		runtime.Gosched()
	}
}

func putBlob(name string) func(*tx) error {
	return func(t *tx) error {
		return t.PutSealed(bucketBlobs, table.Key(name), boltfile.Seal(table.Key(name), []byte(name)))
	}
}

func blobNames(t *testing.T, db *DB) []string {
	t.Helper()
	var out []string
	err := db.records.File.Read(ctxOf(t), func(tx *bolt.Tx) error {
		for k := range table.Under(tx, bucketBlobs, nil) {
			out = append(out, string(k))
		}
		return nil
	})
	must.Succeed(t, err)
	return out
}

func TestFailingOpsDoNotDisturbTheirBatch(t *testing.T) { // invariant 3
	db := openTest(t, Options{})
	release := hold(t, db)
	before := db.Stats().Commits
	bad := errors.New("bad")
	runs := 0
	ops := line(t, db,
		putBlob("a"),
		func(x *tx) error { // fails half done: its write must not stay
			if err := putBlob("half")(x); err != nil {
				return err
			}
			return bad
		},
		func(x *tx) error { runs++; return putBlob("b")(x) },
		func(*tx) error { return bad }, // fails before it writes: nobody has to run again for it
		func(x *tx) error { // sees what came before it in the batch
			if !table.Has(x.Tx, bucketBlobs, table.Key("a")) || table.Has(x.Tx, bucketBlobs, table.Key("half")) {
				return errors.New("sees something else")
			}
			return putBlob("c")(x)
		},
	)
	release()
	var got []error
	for _, o := range ops {
		got = append(got, o.Wait())
	}
	if want := []error{nil, bad, nil, bad, nil}; !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if names := blobNames(t, db); !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("stored %v, want a b c", names)
	}
	if n := db.Stats().Commits - before; n != 1 {
		t.Errorf("%d commits, want 1", n)
	}
	if runs != 1 {
		t.Errorf("the op behind the failed one took part in %d attempts, want 1: the failed attempt ended before it", runs)
	}
}

func TestOpsRunInTheOrderTheyWereQueued(t *testing.T) {
	db := openTest(t, Options{})
	release := hold(t, db)
	before := db.Stats().Commits
	var order []int
	var fns []func(*tx) error
	const n = 256 + 50 // more than one batch takes
	for i := range n {
		fns = append(fns, func(x *tx) error { order = append(order, i); return putBlob(fmt.Sprint(i))(x) })
	}
	ops := line(t, db, fns...)
	release()
	for _, o := range ops {
		must.Succeed(t, o.Wait())
	}
	if !slices.IsSorted(order) || len(order) != n {
		t.Errorf("ran in order %v", order)
	}
	if got := db.Stats().Commits - before; got != 2 {
		t.Errorf("%d ops took %d commits, want 2", n, got)
	}
}

// TestAcknowledgementsShareCommits: what 64 producers accept and drop while a commit is under way goes
// into one more. How many meet in a busy hour is the disk's to say.
func TestAcknowledgementsShareCommits(t *testing.T) {
	db := openTest(t, Options{})
	enroll(t, db, "inst0", "inst1", "inst2", "inst3")
	before := db.Stats()
	const producers, rounds = 64, 10
	together := func(do func(producer int) error) {
		release := hold(t, db)
		var wg sync.WaitGroup
		for p := range producers {
			wg.Go(func() {
				if err := do(p); err != nil {
					t.Error(err)
				}
			})
		}
		waiting(db, producers)
		release()
		wg.Wait()
	}
	for n := range rounds {
		var in [producers]relay.BufferID
		inst := func(p int) relay.InstanceID { return relay.InstanceID(fmt.Sprintf("inst%d", p%4)) }
		together(func(p int) error {
			out, err := db.Accept(ctxOf(t), acceptFor(event(fmt.Sprint(n*producers+p), 1024), inst(p)))
			if err == nil {
				in[p] = out.Items[0].Buffers[0]
			}
			return err
		})
		together(func(p int) error { return acknowledge(ctxOf(t), db, inst(p), in[p]) })
	}
	after := db.Stats()
	if ops, commits := after.Ops-before.Ops, after.Commits-before.Commits; ops < 2*producers*rounds || commits != 2*rounds {
		t.Errorf("%d commits for %d ops, want %d", commits, ops, 2*rounds)
	}
}

func TestContextEndsWhileWaiting(t *testing.T) {
	db := openTest(t, Options{})
	release := hold(t, db)
	ctx, cancel := context.WithCancel(ctxOf(t))
	outcome := make(chan error)
	go func() { outcome <- db.PutBlob(ctx, "x", nil) }()
	waiting(db, 1)
	cancel()
	if err := <-outcome; !errors.Is(err, context.Canceled) { // while the writer is still held
		t.Errorf("got %v, want context canceled", err)
	}
	release()
	must.Succeed(t, db.PutBlob(ctxOf(t), "y", nil))
	if names := blobNames(t, db); !slices.Equal(names, []string{"y"}) {
		t.Errorf("stored %v, want only y", names)
	}
}

func TestContextEndsAfterTheOpHasBegun(t *testing.T) {
	db := openTest(t, Options{})
	ctx, cancel := context.WithCancel(ctxOf(t))
	err := db.change(ctx, nil, "test", func(x *tx) error {
		cancel()
		return putBlob("x")(x)
	})
	if err != nil {
		t.Errorf("got %v, want nil: it is on disk", err)
	}
	if names := blobNames(t, db); !slices.Equal(names, []string{"x"}) {
		t.Errorf("stored %v, want x", names)
	}
	if err := db.PutBlob(ctx, "y", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// breakable opens path through a file the test can close under bbolt's feet.
func breakable(t *testing.T, path string) (*DB, *os.File) {
	t.Helper()
	var file *os.File
	db, err := Open(path, Options{OpenFile: func(p string, flag int, mode fs.FileMode) (*os.File, error) {
		f, err := os.OpenFile(p, flag, mode)
		file = f
		return f, err
	}})
	must.Succeed(t, err)
	return db, file
}

func TestFailedCommit(t *testing.T) { // invariant 2
	path := filepath.Join(t.TempDir(), "test.db")
	db, file := breakable(t, path)
	enroll(t, db, "i1")
	acceptOne(t, db, event("e1", 300), "i1")
	select {
	case <-db.Failed():
		t.Fatal("failed before anything broke")
	default:
	}
	release := hold(t, db)
	var waiters []*boltfile.Op
	waiters = append(waiters, line(t, db, putBlob("a"), func(*tx) error { return errors.New("own error") }, putBlob("b"))...)
	must.Succeed(t, file.Close())
	release()
	for _, o := range waiters {
		if err := o.Wait(); !errors.Is(err, ErrFailed) || !errors.Is(err, os.ErrClosed) {
			t.Errorf("a waiter got %v, want ErrFailed with its cause", err)
		}
	}
	<-db.Failed()
	if !errors.Is(db.records.File.Err(), ErrFailed) || !errors.Is(db.Probe(), ErrFailed) {
		t.Errorf("Err %v, Probe %v; want ErrFailed", db.records.File.Err(), db.Probe())
	}
	if _, err := db.Accept(ctxOf(t), acceptFor(event("e2", 300), "i1")); !errors.Is(err, ErrFailed) {
		t.Errorf("a later write got %v, want ErrFailed", err)
	}
	if seen, err := db.Seen.Has(ctxOf(t), bot, "e1"); err != nil || !seen {
		t.Errorf("a read after the failure: %v, %v; want true", seen, err)
	}
	_ = db.Close() // the file is gone already

	db = reopen(t, path, Options{})
	if names := blobNames(t, db); len(names) != 0 {
		t.Errorf("stored %v although the commit failed", names)
	}
	if es, err := db.Lanes.Entries(ctxOf(t), "i1", EntryFilter{}); err != nil || len(es) != 1 {
		t.Errorf("entries %v, %v; want the one that was acknowledged", es, err)
	}
}

func TestFullDatabase(t *testing.T) {
	t.Parallel()
	db := openTest(t, Options{MaxSize: 4 << 20, Limits: Limits{MaxEntries: 1 << 20}})
	enroll(t, db, "i1")
	var err error
	n := 0
	for ; err == nil && n < 10_000; n++ {
		_, err = db.Accept(ctxOf(t), acceptFor(event(fmt.Sprintf("e%05d", n), 4000), "i1"))
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("after %d events: %v, want ErrFull", n, err)
	}
	if !errors.Is(db.Probe(), ErrFull) || db.records.File.Err() != nil {
		t.Errorf("Probe %v, Err %v; want ErrFull and nil", db.Probe(), db.records.File.Err())
	}
	// Now to the very end, with something that is not refused early.
	for n := 0; err == nil || n == 0; n++ {
		err = db.PutBlob(ctxOf(t), fmt.Sprintf("b%d", n), make([]byte, 100_000))
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	// In one batch: what does not fit must not take what deletes with it.
	e, _, err := db.Lanes.Next(ctxOf(t), "i1", 0)
	must.Succeed(t, err)
	release := hold(t, db)
	ops := line(t, db,
		func(x *tx) error { return x.Put(bucketBlobs, table.Key("huge"), make([]byte, 300_000)) },
		func(x *tx) error {
			l, err := x.lane("i1")
			return errors.Join(err, second(l.drop(e.Buffer)))
		},
	)
	release()
	if err1, err2 := ops[0].Wait(), ops[1].Wait(); !errors.Is(err1, ErrFull) || err2 != nil {
		t.Errorf("got %v and %v, want ErrFull and nil", err1, err2)
	}
	es, err := db.Lanes.Entries(ctxOf(t), "i1", EntryFilter{})
	must.Succeed(t, err)
	for _, e := range es {
		if err := acknowledge(ctxOf(t), db, "i1", e.Buffer); err != nil {
			t.Fatalf("drop: %v", err)
		}
	}
	if err := db.Probe(); err != nil {
		t.Errorf("Probe after everything was dropped: %v", err)
	}
	acceptOne(t, db, event("again", 4000), "i1")
}

func TestCloseAnswersEveryone(t *testing.T) { // invariant 2
	path := filepath.Join(t.TempDir(), "test.db")
	db, err := Open(path, Options{})
	must.Succeed(t, err)
	release := hold(t, db)
	ops := line(t, db, putBlob("a"), putBlob("b"))
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	for { // until it refuses
		if err := db.records.File.Push(&boltfile.Op{Run: func(b boltfile.Batch) error { return putBlob("late")(b.(*tx)) }}); err != nil {
			break
		}
		runtime.Gosched()
	}
	release()
	for _, o := range ops {
		if err := o.Wait(); err != nil {
			t.Errorf("queued before Close: %v", err)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := db.PutBlob(ctxOf(t), "x", nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a write after Close: %v", err)
	}
	if _, err := db.Instances(ctxOf(t)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a read after Close: %v", err)
	}
	db = reopen(t, path, Options{})
	if names := blobNames(t, db); !slices.Contains(names, "a") || !slices.Contains(names, "b") {
		t.Errorf("stored %v, want a and b", names)
	}
}

func TestIdleWritesNothing(t *testing.T) { // invariant 9
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	a := acceptFor(event("e1", 300), "i1")
	a.Cursor = []byte("7")
	if _, err := db.Accept(ctxOf(t), a); err != nil {
		t.Fatal(err)
	}
	before := read(t, path)
	commits := db.Stats().Commits
	for name, err := range map[string]error{
		"same batch": second(db.Accept(ctxOf(t), a)),
		"sweep":      second(db.Sweep(ctxOf(t))),
		"probe":      db.Probe(),
		"update":     db.UpdateInstance(ctxOf(t), nil, "i1", func(*Instance) error { return nil }),
		"drop":       acknowledge(ctxOf(t), db, "i1", relay.BufferID{Epoch: 1, Seq: 1}),
		"burn":       second(db.Codes.Drop(ctxOf(t), nil, CodeFilter{Kind: LinkCode, MAC: []byte("nothing")})),
		"move":       db.MoveChat(ctxOf(t), Move{Platform: "loop", From: "zz", To: "yy"}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := db.Stats().Commits; got != commits {
		t.Errorf("%d commits for nothing", got-commits)
	}
	closeChecked(t, db)
	closeChecked(t, reopen(t, path, Options{}))
	if !slices.Equal(before, read(t, path)) {
		t.Error("the file changed")
	}
}

func second[T any](_ T, err error) error { return err }

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must.Succeed(t, err)
	return b
}

// TestPanicInACommit: bbolt panics on damage that shows only when it writes. The process must be
// able to say so and end.
func TestPanicInACommit(t *testing.T) { // invariant 2
	db := reopen(t, filepath.Join(t.TempDir(), "test.db"), Options{})
	err := db.change(ctxOf(t), nil, "test", func(*tx) error { panic("page 2 already freed") })
	if !errors.Is(err, ErrFailed) || !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want ErrFailed for ErrDamaged", err)
	}
	<-db.Failed()
	if err := db.PutBlob(ctxOf(t), "x", nil); !errors.Is(err, ErrFailed) {
		t.Errorf("a later write: %v, want ErrFailed", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
