package cli_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/cluster"
	"github.com/hermes-connector/hermes-connector/testdata/postgres"
)

var (
	clusterCycles = flag.Int("cluster.cycles", 13, "how often TestCluster does something to a machine, a network or a PostgreSQL")
	clusterSeed   = flag.Uint64("cluster.seed", 0, "the seed of TestCluster's choices; 0 draws one")
)

const clusterLease = 5 * time.Second

// TestCluster runs three nodes over a PostgreSQL and its synchronous standby, behind a balancer that asks /readyz, with a Bot
// API and gateways of the test's own, and does to the one that leads, to its network and to the PostgreSQL what machines do.
// Written down out here are the books that TestKill keeps, and who called the network:
//
//   - no message whose update was confirmed is lost, each gateway gets its own in order, and nothing comes again once the next
//     one has come behind its acknowledgement;
//   - an upload that was confirmed can be sent whichever node leads then;
//   - no answer is sent twice, and one that was reported as sent was sent;
//   - once a node has the network do something, none that led before does; but for a call that had begun when its machine
//     was stopped, or the engine's clock jumped;
//   - the server ends when it is killed, told to, or may no longer lead, and never by itself;
//   - in the end the databases of all nodes, and one that is made from the log, have the same records.
//
// A thousand cycles are
//
//	go test -tags long ./cli -run TestCluster -cluster.cycles 1000 -timeout 5h -v
func TestCluster(t *testing.T) {
	t.Parallel()
	r := newClusterRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg, servers, gateways sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	running, stop := context.WithCancel(ctx)
	defer servers.Wait()
	defer stop()
	there, leave := context.WithCancel(ctx)
	defer gateways.Wait()
	defer leave()
	defer r.healing.Wait()
	r.starts(running, &servers)
	wg.Go(func() { r.balancer.run(ctx, t) })

	first := r.nodes[0].victim
	for i, name := range []string{"home", "kids", "work"} {
		a := first.enrolled(name, 1001+int64(i), r.seed+uint64(i))
		a.changes = r.changesOfLeader
		r.agents = append(r.agents, a)
	}
	agents := r.agents
	for _, n := range r.nodes[1:] {
		servers.Go(func() { n.lives(running) })
	}
	talking, hush := context.WithCancel(there)
	var talkers sync.WaitGroup
	for _, a := range agents {
		gateways.Go(func() { a.run(there, first.url) })
		talkers.Go(func() { first.talk(talking, a, 80*time.Millisecond) })
	}
	all := fault{"kill of all", (*clusterRig).killAll}
	var deck []fault
	for n := range *clusterCycles {
		if len(deck) == 0 {
			deck = r.faults()
			if *clusterCycles > len(deck) {
				deck = append(deck, all)
			}
			r.rand.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
		}
		r.cycle(n, deck[0])
		deck = deck[1:]
	}
	r.healing.Wait()
	r.bot.forgives()
	r.cycle(*clusterCycles, all) // the penalties are forgotten with the one who met them
	hush()
	talkers.Wait()
	r.balancer.calm.Store(true)
	for _, a := range agents {
		a.calm.Store(true)
	}
	if !heardUntil(ctx, agents, (*agent).heardAll) {
		t.Error("messages are missing")
	}
	leave()
	gateways.Wait()
	last := r.leader()
	stop()
	servers.Wait()
	cancel()
	wg.Wait()
	for _, a := range agents {
		a.judge(t, r.bot)
	}
	r.judge(last)
}

// clusterRig is everything around the nodes.
type clusterRig struct {
	t        *testing.T
	seed     uint64
	rand     *rand.Rand
	dir      string
	public   string
	bot      *botAPI
	calls    *callers
	balancer *balancer
	nodes    []*node
	agents   []*agent
	engine   *postgres.Server // that takes writes
	standby  *postgres.Server
	copies   *way // between the two
	clocked  bool // they have clocks of their own
	healing  sync.WaitGroup

	setAside, noRoom atomic.Int64 // how often that was said
	full, met        int          // disks that were made so, and of whose nodes one said it

	mu       sync.Mutex // guards the fields below
	leading  *node      // the one that said so last
	changed  chan struct{}
	changes  int
	stopped  map[string]bool // processes whose machine stood still
	byItself int             // processes that ended since they might no longer lead

	cancelled, promoted, lagged int
	took                        map[string][]time.Duration
}

func newClusterRig(t *testing.T) *clusterRig {
	engine, clocked := postgres.StartClocked(t, "shared_buffers = 16MB\nwal_retrieve_retry_interval = 200ms\nmax_connections = 60\nmax_wal_size = 96MB\nmin_wal_size = 32MB")
	seed := *clusterSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-cluster.seed %d", seed)
	r := &clusterRig{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir(), bot: newBotAPI(t), balancer: newBalancer(t), engine: engine, clocked: clocked,
		changed: make(chan struct{}), stopped: make(map[string]bool), took: make(map[string][]time.Duration),
	}
	r.bot.penalises = 251 // a few answers wait on disk
	r.copies = newWay(t, engine.Port)
	r.standby = engine.Standby(r.copies.port)
	engine.Await()
	r.calls = &callers{bot: r.bot}
	s := httptest.NewServer(http.HandlerFunc(r.calls.serve))
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	r.calls.url = s.URL
	r.public = fmt.Sprintf("http://127.0.0.1:%d", r.balancer.port)
	for i := range 3 {
		ways := [2]*way{newWay(t, engine.Port), newWay(t, r.standby.Port)}
		dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/postgres?sslmode=disable&target_session_attrs=read-write", ways[0].port, ways[1].port)
		r.nodes = append(r.nodes, newNode(t, r, i, dsn, ways))
	}
	r.balancer.nodes = r.nodes
	return r
}

// starts starts the first node, and waits until it leads.
func (r *clusterRig) starts(ctx context.Context, servers *sync.WaitGroup) {
	n := r.nodes[0]
	servers.Go(func() { n.lives(ctx) })
	for end := time.Now().Add(patience); ; {
		resp, err := http.Get("http://" + n.addr + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
		}
		if err == nil && resp.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("the first node does not lead: %s", strings.Join(n.tail, "\n"))
		}
		<-time.After(20 * time.Millisecond)
	}
}

// leads notes that n's process says that it leads.
func (r *clusterRig) leads(n *node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leading = n
	r.changes++
	close(r.changed)
	r.changed = make(chan struct{})
}

// ended notes that a process ended by itself.
func (r *clusterRig) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byItself++
}

func (r *clusterRig) changesOfLeader() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}

// leader is the node that began to lead last.
func (r *clusterRig) leader() *node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leading
}

// fault is something that happens to the node that leads.
type fault struct {
	name string
	to   func(*clusterRig, *node)
}

// faults are all that can be had here.
func (r *clusterRig) faults() []fault {
	all := slices.Clone(faults)
	if r.nodes[0].disk != nil {
		all = append(all,
			fault{"full disk", (*clusterRig).fillDisk},
			fault{"disk that stops", func(_ *clusterRig, n *node) { n.stopsDisk() }})
	}
	if r.clocked {
		all = append(all, fault{"clock jumps", (*clusterRig).jump})
	}
	return all
}

// faults are drawn without repetition until none is left, and then again.
var faults = []fault{
	{"kill", (*clusterRig).kill},
	{"kill of the next, too", (*clusterRig).killTwice},
	{"stop", (*clusterRig).stop},
	{"end", (*clusterRig).end},
	{"move", (*clusterRig).move},
	{"failing disk", func(_ *clusterRig, n *node) { n.failsToWrite() }},
	{"cut", func(r *clusterRig, n *node) {
		way := r.rand.IntN(3) // one, the other, or both
		r.cut(n, way != 0, way != 1, r.long())
	}},
	{"short cut", func(r *clusterRig, n *node) { r.cut(n, true, true, time.Duration(r.rand.IntN(2000))*time.Millisecond) }},
	{"broken connections", (*clusterRig).breaks},
	{"slow network", (*clusterRig).slow},
	{"engine restarts", (*clusterRig).restart},
	{"cancelled waits", (*clusterRig).cancel},
	{"promotion", func(r *clusterRig, n *node) { r.promote(r.rand.IntN(2) == 0) }},
	{"promotion of what lags", (*clusterRig).promoteLagging},
}

// long is longer than a lease.
func (r *clusterRig) long() time.Duration {
	more := 3
	if *clusterCycles > 20 {
		more = 10
	}
	return clusterLease + time.Second + time.Duration(r.rand.IntN(more*1000))*time.Millisecond
}

// later does something when a time is over, while others go on.
func (r *clusterRig) later(after time.Duration, do func()) {
	r.healing.Go(func() {
		<-time.After(after)
		do()
	})
}

// fillDisk leaves no room on n's disk for a while, and has people say so much that its database must grow: it can go on for
// long with the space that was freed in it.
func (r *clusterRig) fillDisk(n *node) {
	run, said := n.process(), r.noRoom.Load()
	n.disk.fills()
	for _, a := range r.agents {
		a.floods.Store(true)
	}
	for end := time.Now().Add(patience); r.noRoom.Load() == said && n.process() == run && r.leader() == n && time.Now().Before(end); <-time.After(5 * time.Millisecond) {
	}
	for _, a := range r.agents {
		a.floods.Store(false)
	}
	r.full++
	if r.noRoom.Load() > said {
		r.met++
	}
	r.later(time.Duration(500+r.rand.IntN(5000))*time.Millisecond, n.disk.empties)
}

func (r *clusterRig) kill(n *node) { n.signal(syscall.SIGKILL) }

// killTwice kills the one that leads, and the next as soon as it does.
func (r *clusterRig) killTwice(n *node) {
	r.mu.Lock()
	changed := r.changed
	r.mu.Unlock()
	n.signal(syscall.SIGKILL)
	select {
	case <-changed:
	case <-time.After(patience):
		r.t.Error("nobody leads")
	}
	<-time.After(time.Duration(r.rand.IntN(300)) * time.Millisecond)
	r.leader().signal(syscall.SIGKILL)
}

func (r *clusterRig) killAll(*node) {
	for _, n := range r.nodes {
		n.signal(syscall.SIGKILL)
	}
}

func (r *clusterRig) end(n *node) { n.signal(syscall.SIGTERM) }

// move has another node lead, if that one lives.
func (r *clusterRig) move(n *node) {
	to := r.nodes[r.rand.IntN(len(r.nodes))]
	_ = n.command("cluster", "move", "main", to.name).Run() // it waits until that is so, which may never be
}

// stop has n's machine stand still for longer than its lease.
func (r *clusterRig) stop(n *node) {
	run := n.signal(syscall.SIGSTOP)
	r.mu.Lock()
	r.stopped[run] = true
	r.mu.Unlock()
	r.later(r.long(), func() { n.signal(syscall.SIGCONT) })
}

// cut holds back what passes between n and the engine.
func (r *clusterRig) cut(n *node, forth, back bool, long time.Duration) {
	for _, w := range n.ways {
		w.holds(forth, back)
	}
	r.later(long, func() {
		for _, w := range n.ways {
			w.holds(false, false)
		}
	})
}

func (r *clusterRig) breaks(n *node) {
	for range 5 {
		for _, w := range n.ways {
			w.breaks()
		}
		<-time.After(time.Duration(r.rand.IntN(100)) * time.Millisecond)
	}
}

func (r *clusterRig) slow(n *node) {
	delay := time.Duration(r.rand.IntN(150)) * time.Millisecond
	for _, w := range n.ways {
		w.set(func() { w.delay = delay })
	}
	r.later(3*time.Second, func() {
		for _, w := range n.ways {
			w.set(func() { w.delay = 0 })
		}
	})
}

func (r *clusterRig) restart(*node) {
	r.engine.Stop()
	r.engine.Start()
}

// cancelWaits cuts the standby off, and has the engine stop waiting for it. What it confirms then is not on the standby.
func (r *clusterRig) cancelWaits() {
	r.copies.holds(true, true)
	for end := time.Now().Add(patience); ; {
		n := strings.Count(r.engine.SQL(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`), "t")
		r.cancelled += n
		if n > 0 {
			return
		}
		if time.Now().After(end) {
			r.t.Error("nobody waits for the standby")
			return
		}
	}
}

func (r *clusterRig) cancel(*node) {
	for range 2 + r.rand.IntN(2) {
		r.cancelWaits()
	}
	r.copies.holds(false, false)
}

// jump sets the engine's clock, by up to a day from the machine's.
func (r *clusterRig) jump(n *node) {
	run := n.process()
	r.mu.Lock()
	r.stopped[run] = true // it may be taken for dead, and hears of it with its next entry
	r.mu.Unlock()
	day := int64(24 * time.Hour)
	r.engine.SetClock(time.Duration(r.rand.Int64N(2*day) - day))
}

// promote loses the engine, and has its standby take its place; it gets a standby of its own when something was accepted.
func (r *clusterRig) promote(cancelled bool) {
	if cancelled {
		r.cancelWaits()
	}
	r.engine.Stop()
	r.copies.breaks()
	r.copies.holds(false, false)
	r.standby.Promote()
	r.engine, r.standby = r.standby, r.engine
	r.promoted++
}

// promoteLagging loses the engine, and has a standby take its place that lacks what was accepted last. n has that, and is the
// first that can lead.
func (r *clusterRig) promoteLagging(n *node) {
	var others []*node
	for _, o := range r.nodes {
		if o != n {
			others = append(others, o)
		}
	}
	hold := func(is bool) {
		for _, o := range others {
			for _, w := range o.ways {
				w.holds(is, is)
			}
		}
	}
	r.engine.AwaitNobody()
	r.copies.holds(true, true)
	hold(true)
	from := r.bot.nextUpdate() + 10
	for end := time.Now().Add(patience); !r.bot.confirmedFrom(from) && time.Now().Before(end); <-time.After(5 * time.Millisecond) {
	}
	r.mu.Lock()
	changed, leads := r.changed, r.leading == n
	r.mu.Unlock()
	if !leads { // another one has what is to be lost
		hold(false)
		r.copies.holds(false, false)
		r.engine.Await()
		return
	}
	r.promote(false)
	r.lagged++
	r.healing.Go(func() {
		select {
		case <-changed:
		case <-time.After(patience):
			r.t.Error("who has more does not lead")
		}
		hold(false)
	})
}

// cycle does something to the leader, and waits until something that was said afterwards is accepted.
func (r *clusterRig) cycle(n int, f fault) {
	leader := r.leader()
	promoted := r.promoted
	began := time.Now()
	f.to(r, leader)
	from := r.bot.nextUpdate()
	for end := time.Now().Add(2 * patience); !r.bot.confirmedFrom(from); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			var all []string
			for _, n := range r.nodes {
				n.mu.Lock()
				all = append(all, n.run+":\n"+strings.Join(n.tail, "\n"))
				n.mu.Unlock()
			}
			r.t.Fatalf("after %s of %s nothing is accepted:\n%s", f.name, leader.name, strings.Join(all, "\n"))
		}
	}
	took := time.Since(began)
	r.took[f.name] = append(r.took[f.name], took)
	r.t.Logf("%d: %s of %s: %.1f s, at %s", n, f.name, leader.name, took.Seconds(), began.Format("15:04:05.000"))
	if r.promoted > promoted {
		r.copies.set(func() { r.copies.to = r.engine.Port })
		r.standby.Copies(r.engine, r.copies.port)
		r.engine.Await()
	}
	<-time.After(time.Duration(r.rand.IntN(800)) * time.Millisecond)
}

// judge says what was seen, and compares the databases. last led in the end.
func (r *clusterRig) judge(last *node) {
	files := []string{filepath.Join(last.dir, "data", "connector.db")}
	before, _ := filepath.Glob(files[0] + ".set-aside-*")
	for _, n := range r.nodes {
		files = append(files, filepath.Join(n.dir, "data", "connector.db"))
	}
	files = append(files, filepath.Join(r.dir, "made.db")) // from the log alone
	r.fills(files)
	if after, _ := filepath.Glob(files[0] + ".set-aside-*"); len(after) > len(before) {
		r.t.Error("what led last was not what the log says")
	}
	want := records(r.t, files[0])
	for _, path := range files[1:] {
		if diff := cmp.Diff(want, records(r.t, path)); diff != "" {
			r.t.Errorf("%s is not as %s (-want +got):\n%s", path, files[0], diff)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	late := make(map[string]int)
	for _, call := range r.calls.late {
		if late[call.run]++; !r.stopped[call.run] || late[call.run] > len(r.nodes) {
			r.t.Errorf("%s calls %s at %s, after %s has led (it was stopped: %v)", call.run, call.method, call.at.Format("15:04:05.000"), call.after, r.stopped[call.run])
		}
	}
	for _, f := range r.bot.faults { // nobody asks it any more
		r.t.Error(f)
	}
	if r.full > 0 && r.met == 0 {
		r.t.Errorf("disks were full %d times, and no node met that", r.full)
	}
	r.t.Logf("%d changes of leader, %d processes ended by themselves, %d files set aside, %d of %d full disks met, %d waits cancelled, %d promotions, %d of them of what lagged, %d calls came late",
		r.changes, r.byItself, r.setAside.Load(), r.met, r.full, r.cancelled, r.promoted, r.lagged, len(r.calls.late))
	for name, took := range r.took {
		slices.Sort(took)
		r.t.Logf("%-22s %3d times; accepted again after %5.1f s in the median, %5.1f s at most", name, len(took), took[len(took)/2].Seconds(), took[len(took)-1].Seconds())
	}
}

// fills has a node of its own bring each file to the end of the log.
func (r *clusterRig) fills(files []string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), patience)
	defer cancel()
	n, err := cluster.Join(cluster.Options{
		DSN: relay.NewSecret([]byte(r.engine.DSN(r.engine.Port))), Node: "judge", Version: "test", Lease: patience, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	defer n.Close(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	running, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() {
		if err := n.Run(running); err != nil {
			r.t.Error(err)
		}
	})
	for _, path := range files {
		filled := false
		leading, end := context.WithCancel(ctx)
		err := n.Lead(leading, []cluster.Shard{{
			Name: "main", Weight: 1, Path: path, File: store.Options{}.File(),
			Opens: func(context.Context, []byte) error { return nil },
			Run:   func(context.Context, *cluster.Lead) error { filled = true; end(); return nil },
		}})
		end()
		if err != nil || !filled {
			r.t.Fatalf("%s is not filled: %v", path, err)
		}
	}
}

// records are all that a database has, as text.
func records(t *testing.T, path string) map[string]string {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	out := make(map[string]string)
	err = db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
			out[string(name)] = fmt.Sprint(bucket.Sequence())
			return bucket.ForEach(func(k, v []byte) error {
				if string(name) == boltfile.MetaBucket && string(k) == "digest" { // it names the file's own transaction; that it is right was looked at before
					return nil
				}
				out[string(name)+"/"+string(k)] = fmt.Sprintf("%x", v)
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
