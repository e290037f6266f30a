package store

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/boltfile/logtest"
	"github.com/hermes-connector/hermes-connector/store/history"
	"github.com/hermes-connector/hermes-connector/store/table"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// So many histories each simulation lives through; the flag itself, when it is given, wins.
	if err := flag.Set("rapid.checks", long.Pick("30", "100")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

var bot = relay.Bot{Platform: "loop", ID: "bot"}

// clock is a time tests move by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock {
	return &clock{at: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// openTest opens a new database and, when the test ends, closes it and has bbolt check it.
func openTest(t testing.TB, o Options) *DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, o)
	return db
}

// logs are the logs of the databases that reopen made, by path.
var logs sync.Map

// reopen opens path and checks it when the test ends. What it makes has a log, but for benchmarks: they measure a server that
// is alone.
func reopen(t testing.TB, path string, o Options) *DB {
	t.Helper()
	_, measured := t.(*testing.B)
	if _, err := os.Stat(path); o.CommitLog == nil && err != nil && !measured {
		logs.Store(path, &logtest.Log{})
	}
	if l, ok := logs.Load(path); ok && o.CommitLog == nil {
		o.CommitLog = &boltfile.Log{To: l.(*logtest.Log), Term: 1, Top: l.(*logtest.Log).Len()}
	}
	db, err := Open(path, o)
	must.Succeed(t, err)
	t.Cleanup(func() { closeChecked(t, db) })
	return db
}

// closeChecked closes db after bbolt's own check and ours of the lane counts. Closed before: nothing.
func closeChecked(t testing.TB, db *DB) {
	t.Helper()
	err := db.records.File.Read(ctxOf(t), func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Errorf("bbolt check: %v", err)
		}
		checkLanes(t, tx)
		want, err := orderOf(tx)
		if err != nil {
			return nil // a test damaged one
		}
		for i, b := range db.order.lanes {
			if w := want.lanes[i]; b.laneRecord != w.laneRecord || !slices.Equal(b.slots, w.slots) {
				t.Errorf("lane %s is remembered as %+v; it is %+v", i, b, w)
			}
		}
		if len(want.lanes) != len(db.order.lanes) {
			t.Errorf("%d lanes are remembered; there are %d", len(db.order.lanes), len(want.lanes))
		}
		return nil
	})
	if errors.Is(err, os.ErrClosed) {
		return
	}
	if err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if l, ok := logs.Load(db.path); ok && db.records.File.Err() == nil {
		l.(*logtest.Log).Check(t, db.path, Options{}.File())
	}
}

// checkLanes compares the counts in the lane records with what is there.
func checkLanes(t testing.TB, tx *bolt.Tx) {
	t.Helper()
	err := tx.Bucket([]byte(bucketLanes)).ForEach(func(k, v []byte) error {
		l, err := table.Decode[laneRecord](k, v)
		if err != nil {
			return nil // a test damaged it
		}
		var entries, dead int
		var bytes int64
		for k2, v := range table.Under(tx, bucketEntries, nil) {
			if i, ok := entryOwner(k2); ok && string(i) == string(k) {
				entries++
				bytes += int64(len(v))
			}
		}
		for range table.Under(tx, bucketDead, append(k[:len(k):len(k)], 0)) {
			dead++
		}
		if entries != l.Entries || bytes != l.Bytes || dead != l.Dead {
			t.Errorf("lane %s says %d entries, %d bytes, %d dead; there are %d, %d, %d",
				k, l.Entries, l.Bytes, l.Dead, entries, bytes, dead)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// keyOf is where an entry stands.
func keyOf(t testing.TB, db *DB, i relay.InstanceID, seq uint64) []byte {
	t.Helper()
	s, _, ok := db.order.next(i, seq-1)
	if !ok || s.seq != seq {
		t.Fatalf("no entry %d of %s", seq, i)
	}
	return entryKey(s.arrival, i, seq)
}

func enroll(t testing.TB, db *DB, names ...relay.InstanceID) {
	t.Helper()
	for _, n := range names {
		g := Gateway{ID: relay.GatewayID(n), Secrets: []GatewaySecret{{ID: "s1", Sealed: []byte("sealed")}}, DeliveryKey: []byte("key")}
		must.Succeed(t, db.Enroll(ctxOf(t), nil, g, Instance{ID: n, Tenant: relay.DefaultTenant}))
	}
}

// event is an event of about size bytes when stored.
func event(id string, size int) relay.Event {
	return relay.Event{
		ID: relay.EventID(id), Bot: bot, At: time.Date(2026, 11, 21, 11, 59, 0, 0, time.UTC),
		Source: relay.Source{Platform: bot.Platform, ChatID: "c1", ChatType: relay.ChatDM, UserID: "u1", UserName: "Ann"},
		Type:   relay.TypeText, Text: strings.Repeat("x", max(0, size-144)), MessageID: relay.MessageID(id),
	}
}

// acceptOne stores one event for the instances.
func acceptOne(t testing.TB, db *DB, e relay.Event, to ...relay.InstanceID) ItemOutcome {
	t.Helper()
	out, err := db.Accept(ctxOf(t), acceptFor(e, to...))
	must.Succeed(t, err)
	return out.Items[0]
}

func acceptFor(e relay.Event, to ...relay.InstanceID) Accept {
	item := AcceptItem{Delivery: e, Frame: frameOf(e)}
	for _, i := range to {
		item.To = append(item.To, Recipient{Instance: i, Conversation: Conversation{By: e.Source.UserID}})
		item.Verdicts = append(item.Verdicts, history.Verdict{Instance: i, Why: "delivered"})
	}
	return Accept{Bot: bot, Items: []AcceptItem{item}}
}

// frameOf stands for a delivery's frame, which the store does not look into.
func frameOf(d relay.Delivery) []byte {
	return []byte("frame of " + strings.Repeat(".", 80) + d.About().Text)
}

func ids[T any](list []T, id func(T) relay.EventID) string {
	var out []string
	for _, x := range list {
		out = append(out, string(id(x)))
	}
	return fmt.Sprint(out)
}

// What the tests know of bbolt's file format.
const (
	pageSize     = boltfile.PageSize
	pageHeader   = 16
	metaSize     = 64
	elementSize  = 16
	flagBranch   = 1
	flagBucket   = 1
	bucketHeader = 16
)

// meta is the meta page that bbolt goes by.
type meta struct {
	at                int // of the 64 bytes
	root, pages, txid uint64
}

func newestMeta(t testing.TB, file []byte) (m meta) {
	t.Helper()
	e := binary.NativeEndian
	for _, at := range []int{pageHeader, pageSize + pageHeader} {
		b := file[at:]
		if tx := e.Uint64(b[48:]); tx > m.txid {
			m = meta{at, e.Uint64(b[16:]), e.Uint64(b[40:]), tx}
		}
	}
	return m
}

// openBolt opens the file at path past all checks.
func openBolt(path string, o Options) (*bolt.DB, error) { return boltfile.OpenBolt(path, o.File()) }

// ctxOf outlives the test's own context, which is over when its clean-up runs.
func ctxOf(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }

// tenantsOf lists the records of tenants, by id.
func tenantsOf(db *DB) (out []Tenant, err error) {
	err = db.records.File.Read(context.Background(), func(t *bolt.Tx) error {
		out, err = table.List[Tenant](t, BucketTenants, nil)
		return err
	})
	return out, err
}

// acknowledge drops an entry as a gateway's acknowledgement does: one that is nowhere is nil.
func acknowledge(ctx context.Context, db *DB, i relay.InstanceID, b relay.BufferID) error {
	return db.Lanes.Ack(ctx, i, b)
}
