package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/store/files"
	"github.com/hermes-connector/hermes-connector/testdata/must"

	"github.com/hermes-connector/hermes-connector/relay"
	bolt "go.etcd.io/bbolt"
)

// openCopy opens what a machine that stopped here would find.
func openCopy(t *testing.T, content []byte) *DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	must.Succeed(t, os.WriteFile(path, content, 0o600))
	return reopen(t, path, Options{})
}

func TestAcknowledgedWritesSurviveACrash(t *testing.T) { // invariant 1
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	const producers = 8
	var insts []relay.InstanceID
	for p := range producers {
		insts = append(insts, relay.InstanceID(fmt.Sprintf("i%d", p)))
	}
	enroll(t, db, insts...)
	acked := make(map[relay.InstanceID]string)
	held := make([]int, producers) // how many capabilities each was given
	for round := range 5 {
		var wg sync.WaitGroup
		for p, i := range insts {
			wg.Go(func() { // each drops its oldest every other time
				for n := range 6 {
					a := acceptFor(event(fmt.Sprintf("%s-%d-%d", i, round, n), 700), i)
					if n%3 == 0 {
						a.Items[0].Capability = capabilityOf(string(a.Items[0].Delivery.About().ID), i, time.Now())
						held[p]++
					}
					out, err := db.Accept(ctxOf(t), a)
					if err == nil && n%2 == 1 {
						err = acknowledge(ctxOf(t), db, i, out.Items[0].Buffers[0])
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for _, i := range insts {
			acked[i] = laneOf(t, db, i)
		}
		// One more that is on its way, but not acknowledged.
		pending := fmt.Sprintf("pending %d", round)
		begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			done <- db.change(ctxOf(t), nil, "test", func(x *tx) error {
				err := putBlob(pending)(x)
				close(begun)
				<-end
				return err
			})
		}()
		<-begun
		copied := openCopy(t, read(t, path))
		for p, i := range insts {
			if got := laneOf(t, copied, i); got != acked[i] {
				t.Errorf("round %d, lane %s: %s, acknowledged were %s", round, i, got, acked[i])
			}
			if got := capabilitiesOf(t, copied, i); len(got) != held[p] {
				t.Errorf("round %d: %s has the capabilities %q, want %d", round, i, got, held[p])
			}
		}
		if slices.Contains(blobNames(t, copied), pending) {
			t.Error("what was not committed is there")
		}
		close(end)
		must.Succeed(t, <-done)
	}
}

func TestTornCommitIsAsIfItNeverWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	for n := range 20 {
		acceptOne(t, db, event(fmt.Sprintf("e%d", n), 700), "i1")
	}
	before, old := read(t, path), laneOf(t, db, "i1")
	acceptOne(t, db, event("last", 700), "i1")
	after, updated := read(t, path), laneOf(t, db, "i1")

	want := map[string]string{"complete": updated, "data pages only": old, "half of the data pages": old, "the meta page was half written": old}
	for name, content := range stoppedIn(before, after) {
		t.Run(name, func(t *testing.T) {
			if got := laneOf(t, openCopy(t, content), "i1"); got != want[name] {
				t.Errorf("got %s, want %s", got, want[name])
			}
		})
	}
}

// stoppedIn are the files a machine may find that stopped in the commit which made after of before.
func stoppedIn(before, after []byte) map[string][]byte {
	const metas = 2 * 4096
	newest := 0 // which of the two meta pages the last commit wrote
	if bytes.Equal(before[:4096], after[:4096]) {
		newest = 4096
	}
	grown := append(slices.Clone(before), make([]byte, max(0, len(after)-len(before)))...)
	torn := slices.Clone(after)
	clear(torn[newest+40 : newest+80])
	half := slices.Clone(after)
	copy(half[metas:], grown[metas:(metas+len(grown))/2])
	copy(half[:metas], grown[:metas])
	return map[string][]byte{
		"complete":                       after,
		"data pages only":                append(slices.Clone(before[:metas]), after[metas:]...),
		"half of the data pages":         half,
		"the meta page was half written": torn,
	}
}

func TestStoppedFirstStart(t *testing.T) {
	// The database gets its name when it is whole, so a stop before that leaves only a leftover.
	dir := t.TempDir()
	temp := filepath.Join(dir, "test.db.new-1")
	b, err := bolt.Open(temp, 0o600, nil)
	must.Succeed(t, err)
	must.Succeed(t, b.Close())
	db := reopen(t, filepath.Join(dir, "test.db"), Options{})
	enroll(t, db, "i1")
	if files.Exists(temp) {
		t.Error("the leftover is still there")
	}
}
