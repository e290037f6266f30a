package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	"github.com/hermes-connector/hermes-connector/testdata/postgres"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// quick has a server sync nothing: no test cuts the power.
const quick = "fsync = off"

// process is one run of a node, with its database.
type process struct {
	t       *testing.T
	node    *Node
	path    string
	lead    *Lead
	db      *store.DB
	key     string             // of its vault
	stop    context.CancelFunc // Run's
	end     context.CancelFunc // Lead's
	running sync.WaitGroup
	err     error         // of Run
	led     chan struct{} // it leads now
	leading sync.WaitGroup
}

// testLease is as long as tests can wait for its end. A renewal may be seconds late on a busy machine before it ends.
const testLease = 10 * time.Second

// opens is Shard.Opens of a node with that key.
func opens(key string) func(context.Context, []byte) error {
	return func(_ context.Context, wrapped []byte) error {
		if string(wrapped) != key {
			return errors.New("wrapped with another key")
		}
		return nil
	}
}

// starts runs a node in dir, without leading.
func starts(t *testing.T, dsn, name, dir string) *process {
	t.Helper()
	return startsFor(t, testLease, dsn, name, dir)
}

// joins calls starts with a new folder.
func joins(t *testing.T, pg *postgres.Server, name string) *process {
	t.Helper()
	return starts(t, pg.DSN(pg.Port), name, t.TempDir())
}

// startsFor is starts with another lease.
func startsFor(t *testing.T, lease time.Duration, dsn, name, dir string) *process {
	t.Helper()
	n, err := Join(Options{DSN: relay.NewSecret([]byte(dsn)), Node: name, Version: "test", Lease: lease, Log: slog.New(slog.NewTextHandler(t.Output(), nil)).With("node", name)})
	must.Succeed(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &process{t: t, node: n, path: filepath.Join(dir, "connector.db"), key: "key", stop: stop, end: func() {}}
	p.running.Go(func() { p.err = n.Run(ctx) })
	t.Cleanup(func() { p.dies(); n.Close(t.Context()) })
	return p
}

// leads waits until p leads, and has its database open.
func (p *process) leads(beside ...Shard) {
	p.t.Helper()
	p.competes(beside...)
	select {
	case <-p.led:
	case <-time.After(time.Minute):
		p.t.Fatal("it does not lead")
	}
}

// competes has p lead as soon as nobody else does, and other shards beside.
func (p *process) competes(beside ...Shard) {
	ctx, end := context.WithCancel(context.WithoutCancel(p.t.Context()))
	p.end, p.led = end, make(chan struct{}, 8)
	p.leading.Go(func() {
		err := p.node.Lead(ctx, append(beside, p.shard()))
		if err != nil {
			p.t.Error(err)
		}
	})
}

func (p *process) shard() Shard {
	return Shard{Name: "main", Weight: 1, Path: p.path, File: store.Options{}.File(), Opens: opens(p.key), Run: p.serves}
}

// serves is Shard.Run.
func (p *process) serves(ctx context.Context, l *Lead) error {
	db, err := store.Open(p.path, store.Options{CommitLog: l.Log()})
	if err != nil {
		return err
	}
	p.lead, p.db = l, db
	p.led <- struct{}{}
	<-ctx.Done()
	if err := db.Close(); err != nil && !errors.Is(err, store.ErrFailed) {
		return err
	}
	return nil
}

// dies ends p as kill -9 does: the engine is told of nothing.
func (p *process) dies() {
	p.node.look.close(p.t.Context())
	p.node.look.turn <- struct{}{}
	p.node.look.config.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("dead") }
	<-p.node.look.turn
	p.stop()
	p.end()
	p.running.Wait()
	p.leading.Wait()
}

// ends ends p in order.
func (p *process) ends() {
	p.t.Helper()
	p.stop()
	p.end()
	p.running.Wait()
	p.leading.Wait()
	if err := p.node.Release(context.WithoutCancel(p.t.Context())); err != nil {
		p.t.Error(err)
	}
}

func (p *process) put(k string) error {
	return p.db.PutBlob(context.WithoutCancel(p.t.Context()), k, []byte(k))
}

// has compares what the database has with what was confirmed.
func (p *process) has(confirmed []string) {
	p.t.Helper()
	for _, k := range confirmed {
		if b, ok, err := p.db.Blob(p.t.Context(), k); err != nil || !ok || string(b) != k {
			p.t.Errorf("%s: %q, %v, %v", k, b, ok, err)
		}
	}
}

// fills puts n records named after what, and returns those that were confirmed.
func (p *process) fills(what string, n int) (confirmed []string) {
	p.t.Helper()
	for i := range n {
		k := fmt.Sprintf("%s%03d", what, i)
		must.Succeed(p.t, p.put(k))
		confirmed = append(confirmed, k)
	}
	return confirmed
}

// TestAnotherNodeLeads: what was confirmed is there on whichever node leads next, also after one that did not let go, and
// that one stores nothing more.
func TestAnotherNodeLeads(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	dirA, dirB := t.TempDir(), t.TempDir()
	a := starts(t, pg.DSN(pg.Port), "a", dirA)
	a.leads()
	confirmed := a.fills("first", 40)
	// a stands still, and does not know that its lease is over.
	a.stop()
	a.running.Wait()
	a.node.until.Store(1 << 62)
	b := startsFor(t, time.Hour, pg.DSN(pg.Port), "b", dirB) // nobody leads before its end who waits for that
	b.leads()
	b.has(confirmed)
	if err := a.put("late"); !errors.Is(err, ErrFenced) || !errors.Is(err, store.ErrFailed) {
		t.Errorf("the former leader: %v", err)
	}
	if err := a.put("later"); !errors.Is(err, store.ErrFailed) {
		t.Errorf("the former leader goes on: %v", err)
	}
	a.dies()
	confirmed = append(confirmed, b.fills("second", 40)...)
	b.ends()
	again := starts(t, pg.DSN(pg.Port), "c", dirA)
	again.leads()
	again.has(confirmed)
	if kept, _ := filepath.Glob(filepath.Join(dirA, "*.set-aside-*")); len(kept) != 0 {
		t.Errorf("a file that was only behind is set aside: %v", kept)
	}
	if _, ok, _ := again.db.Blob(t.Context(), "late"); ok {
		t.Error("what was refused is there")
	}
}

// TestAFileOfAnotherStory: a file that the log does not continue is kept under another name, and the node has the log's.
func TestAFileOfAnotherStory(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a := joins(t, pg, "a")
	a.leads()
	confirmed := a.fills("ours", 5)
	a.ends()
	dir := t.TempDir()
	alone, err := store.Open(filepath.Join(dir, "connector.db"), store.Options{})
	if err == nil {
		err = errors.Join(alone.PutBlob(t.Context(), "own", nil), alone.Close())
	}
	must.Succeed(t, err)
	b := starts(t, pg.DSN(pg.Port), "b", dir)
	b.leads()
	b.has(confirmed)
	if _, ok, _ := b.db.Blob(t.Context(), "own"); ok {
		t.Error("it has what it had alone")
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, "connector.db.before-cluster-*")); len(kept) != 1 {
		t.Errorf("kept: %v", kept)
	}
}

// TestAFileThatWasChangedBesidesTheLog: it is found when the next entry does not fit, and filled anew.
func TestAFileThatWasChangedBesidesTheLog(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	dir := t.TempDir()
	a := starts(t, pg.DSN(pg.Port), "a", dir)
	a.leads()
	confirmed := a.fills("k", 5)
	a.ends()
	alone, err := store.Open(filepath.Join(dir, "connector.db"), store.Options{})
	if err == nil {
		err = errors.Join(alone.PutBlob(t.Context(), "own", nil), alone.Close())
	}
	must.Succeed(t, err)
	b := joins(t, pg, "b")
	b.leads()
	confirmed = append(confirmed, b.fills("more", 5)...)
	b.ends()
	again := starts(t, pg.DSN(pg.Port), "c", dir)
	again.leads()
	again.has(confirmed)
	if _, ok, _ := again.db.Blob(t.Context(), "own"); ok {
		t.Error("it has what the log has not")
	}
}

// TestAFreshEngine: a node whose PostgreSQL was lost brings all it has into the next one.
func TestAFreshEngine(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	dir := t.TempDir()
	a := starts(t, pg.DSN(pg.Port), "a", dir)
	a.leads()
	confirmed := a.fills("k", 5)
	a.ends()
	pg.SQL(`DROP SCHEMA hermes_connector CASCADE`)
	again := starts(t, pg.DSN(pg.Port), "a", dir)
	again.leads()
	confirmed = append(confirmed, again.fills("more", 5)...)
	again.ends()
	b := joins(t, pg, "b")
	b.leads()
	b.has(confirmed)
}

// TestTheSecondHost: a host that does not answer does not keep a node from the next one of its DSN.
func TestTheSecondHost(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	mute, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and says nothing
	must.Succeed(t, err)
	defer mute.Close()
	a := starts(t, fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/postgres?sslmode=disable&target_session_attrs=read-write", mute.Addr().(*net.TCPAddr).Port, pg.Port), "a", t.TempDir())
	a.leads()
	a.fills("k", 5)
}

// TestASnapshotInThePlaceOfTheLog: a new node is filled from the newest snapshot and the log behind it; the log before the
// last but one is gone.
func TestASnapshotInThePlaceOfTheLog(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a := joins(t, pg, "a")
	a.leads()
	confirmed := a.fills("one", 30)
	if err := a.db.PutBlob(t.Context(), "large", make([]byte, 700_000)); err != nil { // over several parts
		t.Fatal(err)
	}
	for _, what := range []string{"two", "three"} {
		must.Succeed(t, a.lead.snapshot(t.Context(), func(ctx context.Context, w io.Writer) (boltfile.Place, error) { return a.db.Copy(ctx, w) }))
		confirmed = append(confirmed, a.fills(what, 30)...)
	}
	a.ends()
	if n := pg.SQL(`SELECT count(*) FROM hermes_connector.log WHERE n < 20`); n != "0\n" {
		t.Errorf("%s old entries are left", n)
	}
	b := joins(t, pg, "b")
	b.leads()
	b.has(confirmed)
	if large, ok, err := b.db.Blob(t.Context(), "large"); len(large) != 700_000 || !ok || err != nil {
		t.Errorf("%d bytes, %v, %v", len(large), ok, err)
	}
}

// TestTheEngineRestarts: what was confirmed before and after is there, each once, and writers wait meanwhile.
func TestTheEngineRestarts(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, "")
	a := startsFor(t, 10*time.Minute, pg.DSN(pg.Port), "a", t.TempDir()) // the engine is back before its end, however slow the machine
	a.leads()
	var confirmed []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 300 {
			if k := fmt.Sprintf("k%03d", n); a.put(k) == nil {
				confirmed = append(confirmed, k)
			}
		}
	}()
	for range 2 {
		pg.Stop()
		pg.Start()
	}
	<-done
	if len(confirmed) != 300 {
		t.Errorf("%d of 300 were confirmed", len(confirmed))
	}
	a.ends()
	b := joins(t, pg, "b")
	b.leads()
	b.has(confirmed)
}

// TestACancelledWaitForAStandby: the engine confirms it, with a warning. It counts as unknown, and the lease, whose renewal
// waits for the same standby, ends.
func TestACancelledWaitForAStandby(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a := joins(t, pg, "a")
	a.leads()
	a.fills("k", 3)
	pg.SQL(`ALTER SYSTEM SET synchronous_standby_names = 'absent'`)
	pg.SQL(`SELECT pg_reload_conf()`)
	put, ended := make(chan error, 1), make(chan struct{})
	go func() {
		err := error(nil)
		for n := 0; err == nil && n < 10_000; n++ { // until the engine has read its settings
			err = a.put(fmt.Sprint("w", n))
		}
		put <- err
	}()
	go func() { a.running.Wait(); close(ended) }()
	cancelled := false
	for running := true; running; {
		select {
		case err := <-put:
			t.Fatalf("answered, cancelled %v: %v", cancelled, err)
		case <-ended:
			running = false
		case <-time.After(50 * time.Millisecond):
			// Its own statement that waits for the standby, nobody else's.
			if pg.SQL(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'WITH ok%'`) != "" {
				cancelled = true
			}
		}
	}
	if !cancelled || !errors.Is(a.err, ErrFenced) || a.node.Alive() {
		t.Errorf("cancelled %v, alive %v: %v", cancelled, a.node.Alive(), a.err)
	}
	pg.SQL(`ALTER SYSTEM SET synchronous_standby_names = ''`) // lets go of what hangs
	pg.SQL(`SELECT pg_reload_conf()`)
	<-put
}

// TestTheWayToTheEngineBreaks: connections that end at any byte leave no answered write out, and none twice.
func TestTheWayToTheEngineBreaks(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	way := newBreaking(t, pg.Port)
	a := starts(t, pg.DSN(way.port), "a", t.TempDir())
	a.leads()
	way.breaks.Store(true)
	confirmed := a.fills("k", 60)
	way.breaks.Store(false)
	if way.broke.Load() < 5 {
		t.Fatalf("only %d connections broke", way.broke.Load())
	}
	a.ends()
	b := joins(t, pg, "b")
	b.leads()
	b.has(confirmed)
}

// TestWhoCannotOpenTheVaultDoesNotLead, however long nobody else does.
func TestWhoCannotOpenTheVaultDoesNotLead(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a := joins(t, pg, "a")
	a.leads()
	must.Succeed(t, a.lead.KeepVault(t.Context(), []byte("key")))
	confirmed := a.fills("a", 3)
	a.ends()
	b := joins(t, pg, "b")
	b.key = "another"
	b.competes()
	c := joins(t, pg, "c")
	c.leads()
	c.has(confirmed)
	c.ends()
	if l, err := b.node.take(t.Context(), Shard{Name: "main", Opens: opens("another")}); l != nil || err == nil {
		t.Errorf("%v, %v", l, err)
	}
}

// TestMoveAndDrain: a shard goes to another node and back while both run, with all it has, and writers find the new leader.
func TestMoveAndDrain(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a, b := joins(t, pg, "a"), joins(t, pg, "b")
	a.leads()
	confirmed := a.fills("a", 5)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wait.Until(t, "b has a lease", b.node.Alive)
	b.competes()
	operator, err := Join(b.node.o) // it has no lease, and asks only
	must.Succeed(t, err)
	defer operator.Close(ctx)
	must.Succeed(t, operator.Move(ctx, "main", "b"))
	<-b.led
	because(t, operator, "a let go: main is moved to b")
	b.has(confirmed)
	confirmed = append(confirmed, b.fills("b", 5)...)
	for _, err := range []error{operator.Move(ctx, "main", "nobody"), operator.Move(ctx, "other", "a"), operator.Drain(ctx, "nobody")} {
		if !errors.Is(err, ErrNobody) {
			t.Error(err)
		}
	}
	must.Succeed(t, operator.Drain(ctx, "b"))
	<-a.led
	because(t, operator, "b let go: it is drained")
	a.has(confirmed)
	if err := operator.Drain(ctx, "a"); !errors.Is(err, ErrNobody) {
		t.Errorf("the last one is drained: %v", err)
	}
}

// TestAMoveToANodeThatCannot: it ends, and the shard is led as before.
func TestAMoveToANodeThatCannot(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	a, b := joins(t, pg, "a"), joins(t, pg, "b")
	a.leads()
	confirmed := a.fills("a", 5)
	b.path = filepath.Join(b.path, "nowhere")
	wait.Until(t, "b has a lease", b.node.Alive)
	b.competes()
	operator, err := Join(b.node.o)
	must.Succeed(t, err)
	defer operator.Close(t.Context())
	if err := operator.Move(t.Context(), "main", "b"); err == nil {
		t.Error("it was moved")
	}
	for range moveTries {
		<-a.led
	}
	a.has(confirmed)
}

// because compares what the engine says of the last change of leader.
func because(t *testing.T, n *Node, want string) {
	t.Helper()
	if o, err := n.Overview(t.Context()); err != nil || o.Shards[0].Why != want {
		t.Errorf("%+v, %v; want %q", o.Shards, err, want)
	}
}

// TestAMoveWhileNobodyLeads: another node than the one that is asked for may be quicker, and gives the shard up then.
func TestAMoveWhileNobodyLeads(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	former := joins(t, pg, "c")
	former.leads()
	confirmed := former.fills("c", 5)
	former.ends()
	a, b := joins(t, pg, "a"), joins(t, pg, "b")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	wait.Until(t, "both have a lease", func() bool { return a.node.Alive() && b.node.Alive() })
	operator, err := Join(b.node.o)
	must.Succeed(t, err)
	defer operator.Close(ctx)
	moved := make(chan error, 1)
	go func() { moved <- operator.Move(ctx, "main", "b") }()
	for pg.SQL(`SELECT wanted FROM hermes_connector.shard`) != "b\n" {
		if sleep(ctx, 10*time.Millisecond) != nil {
			t.Fatal("nothing is asked for")
		}
	}
	a.competes()
	<-a.led
	b.competes()
	must.Succeed(t, <-moved)
	<-b.led
	b.has(confirmed)
}

// TestSeveralMakeTheTables: nodes that begin on it at the same time make its tables without a word.
func TestSeveralMakeTheTables(t *testing.T) {
	t.Parallel()
	pg := postgres.Start(t, quick)
	for range 5 {
		pg.SQL(`DROP SCHEMA IF EXISTS hermes_connector CASCADE`)
		var all sync.WaitGroup
		began := make(chan struct{})
		for range 6 {
			config, err := engineConfig(relay.NewSecret([]byte(pg.DSN(pg.Port))), testLease)
			must.Succeed(t, err)
			e := newEngine(config)
			if _, err := e.exec(t.Context(), "SELECT 1"); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				defer e.close(t.Context())
				<-began
				if err := makeTables(t.Context(), e); err != nil {
					t.Error(err)
				}
			})
		}
		close(began)
		all.Wait()
	}
}

// TestTheNewestFileThatWasSetAsideIsKept, and a database of before.
func TestTheNewestFileThatWasSetAsideIsKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "connector.db")
	n := &Node{o: Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}}
	for _, step := range []struct {
		file string
		why  verdict
	}{{"before", foreign}, {"first", elsewhere}, {"second", hasMore}} {
		err := os.WriteFile(path, []byte(step.file), 0o600)
		if err == nil {
			err = n.setAside(path, string(step.why))
		}
		must.Succeed(t, err)
	}
	var left []string
	for _, mark := range []string{".before-cluster-", aside} {
		all, _ := filepath.Glob(path + mark + "*")
		for _, one := range all {
			text, _ := os.ReadFile(one)
			left = append(left, string(text))
		}
	}
	if !slices.Equal(left, []string{"before", "second"}) {
		t.Errorf("left: %q", left)
	}
}
