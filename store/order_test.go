package store

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestAFailedChangeLeavesTheOrder: what is remembered of lanes is what is on disk, also after a change that failed when it
// had moved entries, beside one in its batch that did not.
func TestAFailedChangeLeavesTheOrder(t *testing.T) { // invariants 3 and 6
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1", "i2")
	var ids []relay.BufferID
	for _, id := range []string{"a", "b", "c", "d"} {
		acceptOne(t, db, event("x"+id, 300), "i2")
		ids = append(ids, acceptOne(t, db, event(id, 300), "i1").Buffers[0])
	}
	moved := func(x *tx) error {
		l, err := x.lane("i1")
		if err != nil {
			return err
		}
		payload, err := encodeEntry(entryHead{At: db.now(), About: AboutOf(event("new", 300))}, frameOf(event("new", 300)))
		id, err2 := l.append(payload)
		k, v := l.oldest()
		return errors.Join(err, err2, l.bury(k, v, DeadAge, db.now()), second(l.drop(ids[2])), second(l.drop(id)), second(l.append(payload)))
	}
	bad := errors.New("bad")
	release := hold(t, db)
	ops := line(t, db,
		func(x *tx) error { return errors.Join(moved(x), bad) },
		func(x *tx) error {
			l, err := x.lane("i1")
			return errors.Join(err, second(l.drop(ids[1])))
		})
	release()
	if err := ops[0].Wait(); !errors.Is(err, bad) {
		t.Fatalf("got %v", err)
	}
	must.Succeed(t, ops[1].Wait())
	if got := laneOf(t, db, "i1"); got != "[a c d]" {
		t.Errorf("after a change that failed: %s", got)
	}
	must.Succeed(t, db.change(ctxOf(t), nil, "test", moved))
	for _, when := range []string{"at once", "after a restart"} {
		if got := laneOf(t, db, "i1") + laneOf(t, db, "i2"); got != "[d new][xa xb xc xd]" {
			t.Errorf("%s: %s", when, got)
		}
		closeChecked(t, db)
		db = reopen(t, path, Options{})
	}
}
