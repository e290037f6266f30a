// Package cluster keeps the log of a database in PostgreSQL, and decides which of several nodes leads it. It reaches no
// agreement itself: agreement and copies on several disks are the engine's work. Ours are one lease, one log and one
// fenced statement.
//
// Words: the *engine* is the PostgreSQL; a *node* is a process, with a new *run* at each start; a *shard* is the
// content of one database file; its *term* grows with every change of leader.
//
// Invariants:
//
//  1. Only the leader of the newest term stores an entry, as the one after the newest (appendSQL). A confirmation with
//     a warning counts as unknown: a cancelled wait for a standby is confirmed that way, and is not copied.
//  2. A node leads after the engine has confirmed it, and after its file matches the log up to the newest entry. That
//     confirmation is also a barrier: WAL is one sequence, so all earlier writes are as safe as the confirmed one.
//  3. A node counts its lease from when it sent the last confirmed renewal, by a clock that goes on while the machine
//     sleeps, and has ended (Alive) before the engine's own clock lets another one lead.
//  4. Nothing is repaired: a file that is not on the log's chain is set aside and named, and filled anew. Only data
//     that others have, too, is dropped.
//  5. Entries that the engine had confirmed and then lost are brought back by the node that has most of them, or named
//     (back.go).
//  6. No node copies or leads records of a schema that it does not know.
//
// Statements run alone, unnamed and outside transaction blocks, so PgBouncer may stand between.
package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

const (
	// margin is how long before the end of its lease, by the engine, a node considers the lease over.
	margin = 2 * time.Second
	// lookEvery is the pause between two looks of a node that does not lead.
	lookEvery = 2 * time.Second
	// makeTries is how often a node tries to make the tables before it gives up.
	makeTries = 10
)

// ErrFenced: another node leads, or may lead.
var ErrFenced = errors.New("another node leads now, or may")

// Options are the settings of a node. All must be set, except URL.
type Options struct {
	DSN     relay.Secret  // of the engine, as libpq reads it; several hosts and target_session_attrs work
	Node    string        // its name; no other process has the same
	Version string        // of this program
	URL     string        // where other nodes reach this one; empty: nowhere
	Lease   time.Duration // at least 5 s, or a renewal that is a little late ends it
	Log     *slog.Logger
}

// Node is this process among those that share an engine. Its methods may be called from any goroutine.
type Node struct {
	o    Options
	now  func() time.Duration // boottime
	run  string               // random, new at each start
	beat *engine              // for the lease
	logs *pool                // for Append
	file *pool                // for Files
	look *engine              // for everything else

	until   atomic.Int64 // on the clock of now: when the lease counts as over; 0: it has no lease
	leading atomic.Int32 // how many shards it leads, or is about to

	report report

	mu     sync.Mutex           // guards the fields below
	copies map[string]*warmCopy // by shard
	waits  map[string]time.Time // by shard: until when this node waits for one that has more of lost entries (mostKept)

	leaders  map[string]leader // by shard
	lookedAt time.Duration     // when leaders was read, on the clock of now
}

// Join makes a node. It does nothing before it is run; the error is about the DSN.
func Join(o Options) (*Node, error) {
	config, err := engineConfig(o.DSN, o.Lease)
	if err != nil {
		return nil, err
	}
	return &Node{
		o: o, now: boottime, run: rand.Text(), beat: newEngine(config), look: newEngine(config), logs: newPool(config), file: newPool(config),
		copies: make(map[string]*warmCopy), waits: make(map[string]time.Time), report: report{places: make(map[string]uint64), troubles: make(map[string]string)},
	}, nil
}

// Close closes the connections to the engine. It is called after Run and Lead have returned.
func (n *Node) Close(ctx context.Context) {
	n.beat.close(ctx)
	n.logs.close(ctx)
	n.file.close(ctx)
	n.look.close(ctx)
}

// tables are the statements that create what a fresh engine needs, in their order: if the last table exists, all do. A
// later version adds columns, and removes none while an older one may run.
var tables = []string{
	`CREATE SCHEMA IF NOT EXISTS hermes_connector`,
	`CREATE TABLE IF NOT EXISTS hermes_connector.node (node text PRIMARY KEY, run text NOT NULL, version text NOT NULL, until timestamptz NOT NULL, lease bigint NOT NULL, url text NOT NULL DEFAULT '', drained text NOT NULL DEFAULT '',
		places text NOT NULL, troubles text NOT NULL, p99 bigint NOT NULL, gone bigint NOT NULL DEFAULT 0, gone_at timestamptz) WITH (fillfactor = 10)`,
	`CREATE TABLE IF NOT EXISTS hermes_connector.shard (shard text PRIMARY KEY, term bigint NOT NULL, leader text NOT NULL, top bigint NOT NULL, chain bytea NOT NULL, vault bytea NOT NULL, wanted text NOT NULL,
		schema bigint NOT NULL DEFAULT 0, since timestamptz NOT NULL DEFAULT clock_timestamp(), why text NOT NULL DEFAULT '', former text NOT NULL DEFAULT '') WITH (fillfactor = 10)`,
	`CREATE TABLE IF NOT EXISTS hermes_connector.log (shard text, n bigint, term bigint NOT NULL, entry bytea NOT NULL, PRIMARY KEY (shard, n))`,
	`ALTER TABLE hermes_connector.log ALTER COLUMN entry SET STORAGE EXTERNAL`, // much of it is sealed, and not worth compressing
	`CREATE TABLE IF NOT EXISTS hermes_connector.part (shard text, kind text, id bigint, part bigint, bytes bytea NOT NULL, PRIMARY KEY (shard, kind, id, part))`,
}

// me returns the name of this run of this node as a leader: NODE/RUN.
func (n *Node) me() string { return n.o.Node + "/" + n.run }

// boottime returns the time of a clock that continues while the machine sleeps.
func boottime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // Linux has it since 2.6.39
	}
	return time.Duration(t.Nano())
}

// Alive reports whether the node's lease holds. Every action on behalf of a shard checks this first.
func (n *Node) Alive() bool { return n.now() < time.Duration(n.until.Load()) }

// lives is true if a node's lease holds, by the engine's clock. If a lease ends later than twice its length from now,
// it is from before that clock went back, as may happen when a copy takes over: it counts as over, because otherwise
// all nodes would wait that long for a node that has died since.
const lives = `until > clock_timestamp() AND until < clock_timestamp() + lease * interval '2 milliseconds'`

const renewSQL = `INSERT INTO hermes_connector.node (node, run, version, until, places, troubles, p99, url, lease) VALUES ($1, $2, $3, clock_timestamp() + $4::bigint * interval '1 millisecond', $5, $6, $7::bigint, $8, $4::bigint)
	ON CONFLICT (node) DO UPDATE SET run = excluded.run, version = excluded.version, until = excluded.until, places = excluded.places, troubles = excluded.troubles, p99 = excluded.p99, url = excluded.url, lease = excluded.lease
	WHERE node.run = excluded.run OR node.until < clock_timestamp() OR node.until > clock_timestamp() + node.lease * interval '2 milliseconds'`

// errTaken: the node's name is another process's.
var errTaken = errors.New("another process has this node's name, or had it until just now; a name belongs to one process")

// renew renews the lease. Its confirmation proves that everything stored before is as safe as the engine can make it.
func (n *Node) renew(ctx context.Context) error {
	sent := n.now()
	places, troubles, p99 := n.report.columns()
	done, err := n.beat.exec(ctx, renewSQL, n.o.Node, n.run, n.o.Version, n.o.Lease.Milliseconds(), places, troubles, p99, n.o.URL)
	switch {
	case err != nil:
		return fmt.Errorf("lease: %w", err)
	case done.rows == 0:
		return fmt.Errorf("node %s: %w", n.o.Node, errTaken)
	}
	if n.leading.Load() > 0 && !n.Alive() { // the machine slept: what has ended must not begin again
		return ErrFenced
	}
	n.until.Store(int64(sent + n.o.Lease - margin))
	return nil
}

// Run keeps the lease until ctx ends, and returns ErrFenced as soon as a node that leads may be taken for dead: then the
// process must end at once. Without an engine a node that does not lead waits.
func (n *Node) Run(ctx context.Context) error {
	lapsed := make(chan struct{})
	watched, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // in a goroutine of its own, because a renewal may hang
		defer close(lapsed)
		for tick := time.Tick(100 * time.Millisecond); ; {
			select {
			case <-watched.Done():
				return
			case <-tick:
				if n.leading.Load() > 0 && !n.Alive() {
					return
				}
			}
		}
	}()
	beaten := make(chan struct{})
	go func() {
		defer close(beaten)
		n.beats(watched)
	}()
	<-lapsed
	stop()
	if ctx.Err() == nil {
		return fmt.Errorf("the lease of node %s has ended: %w", n.o.Node, ErrFenced) // a renewal that hangs ends with the process
	}
	<-beaten
	return nil
}

// beats renews every third of the lease, and sooner after a failure.
func (n *Node) beats(ctx context.Context) {
	for made, failed := false, false; ; {
		pause, err := n.o.Lease/3, error(nil)
		if !made {
			err = makeTables(ctx, n.beat)
			made = err == nil
		}
		if made {
			err = n.renew(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			pause = 500 * time.Millisecond
			if !failed {
				n.o.Log.Warn("the node's lease was not renewed", "err", err)
			}
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func makeTables(ctx context.Context, e *engine) error {
	there, err := e.exec(ctx, `SELECT to_regclass('hermes_connector.part')::text`)
	// Existing tables are not changed: a change would wait for a running dump, and all other statements for the change.
	if err != nil || there.cells[0][0] != nil {
		return err
	}
	for try := 1; ; try++ {
		for _, sql := range tables {
			if _, err = e.exec(ctx, sql); err != nil {
				break
			}
		}
		if err == nil {
			return nil
		}
		// IF NOT EXISTS does not help while another node does the same.
		if _, refused := errors.AsType[*pgconn.PgError](err); !refused || try == makeTries || sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("tables: %w", err)
		}
	}
}

// Release gives up the lease, after Run and Lead, so that another node need not wait for its end.
func (n *Node) Release(ctx context.Context) error {
	n.until.Store(0)
	var err error
	for range 2 { // an idle connection may have broken, and then the second try makes a new one
		if _, err = n.look.exec(ctx, `UPDATE hermes_connector.node SET until = clock_timestamp() WHERE node = $1 AND run = $2`, n.o.Node, n.run); err == nil {
			return nil
		}
	}
	return fmt.Errorf("lease: %w", err)
}
