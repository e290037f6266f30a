package store

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/store/boltfile/logtest"
	"github.com/hermes-connector/hermes-connector/store/capability"
	"github.com/hermes-connector/hermes-connector/store/rekey"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// A power cut leaves what was synced and any part of what was not. A commit is synced once, when its pages and
// its meta page are written: until then the disk can hold, sector by sector, any of what it has written,
// in a file of the old or the new size. The store is stopped there, behind every commit of a busy hour, and
// the states are made of the file as it was and as it is.

const sector = 512

var cuts = flag.Int("cuts", long.Pick(100, 500), "how many power cuts TestPowerCuts tries")

// step is the file before and after an unsynced commit.
type step struct {
	old, updated []byte
	entry        uint64 // of the log that the commit is
}

// busy runs a database under load from all sides, and notes every commit. l is its log.
func busy(t *testing.T) (steps []step, l *logtest.Log) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	l = &logtest.Log{}
	o := Options{MaxSize: 8 << 20, Limits: Limits{MaxEntries: 5}, CommitLog: &boltfile.Log{To: l, Term: 1}} // grows by 128 KiB
	var last []byte
	o.BeforeSync = func() {
		now := read(t, path)
		steps = append(steps, step{last, now, l.Len() + 1})
		last = now
	}
	closeChecked(t, reopen(t, path, o)) // the log begins with the whole file
	steps, last, o.CommitLog.Top = nil, read(t, path), l.Len()
	db := reopen(t, path, o)
	insts := []relay.InstanceID{"i0", "i1", "i2", "i3"}
	enroll(t, db, insts...)
	var wg sync.WaitGroup
	for p, i := range insts {
		wg.Go(func() {
			for n := range 40 {
				e := event(fmt.Sprintf("%s-%02d", i, n), 300+n%3*900)
				e.Source.ChatID = relay.ChatID(fmt.Sprint("chat", n))
				a := acceptFor(e, i, insts[(p+1)%4])
				c := capabilityOf(string(e.ID), i, time.Now())
				switch n % 3 {
				case 0:
					a.Items[0].Capability = c
				case 1:
					a.Items[0].Delivery = relay.Forward{Event: e, Body: []byte("body"), Until: c.ExpiresAt}
					a.Items[0].Forward = &Forward{Frame: []byte("a forward\n"), Until: c.ExpiresAt}
				}
				var occupies func(AcceptOutcome) error
				if n%3 == 2 {
					occupies = occupy(t, db, i, n, &a)
				}
				out, err := db.Accept(ctxOf(t), a)
				if err == nil && occupies != nil {
					err = occupies(out)
				}
				switch {
				case err != nil:
				case p == 0 && n%10 == 9: // everything sealed is sealed anew
					_, err = db.Reseal(ctxOf(t), "vault", []byte{byte(n)}, complemented, capability.Sealed(), rekey.Records(BucketGateways, false, gatewayValues))
				case n%6 == 0:
					db.Capabilities.Became(*c, capability.Answered) // rides with another commit
				case n%9 == 3:
					db.Capabilities.Became(*c, capability.Useless)
				case n%8 == 3: // over many pages, so that the file grows
					err = db.PutBlob(ctxOf(t), fmt.Sprintf("blob%d%02d", p, n), bytes.Repeat([]byte{byte(n)}, 30_000))
				case n%8 == 6: // and these are free again
					err = db.PutBlob(ctxOf(t), fmt.Sprintf("blob%d%02d", p, n-3), []byte("small"))
				case n%2 == 0:
					err = acknowledge(ctxOf(t), db, i, out.Items[0].Buffers[0])
				case n%5 == 0:
					err = db.Bind(ctxOf(t), nil, Binding{Platform: "loop", User: relay.UserID(fmt.Sprint("u", n)), Instance: i})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if has := recordsOf(t, db); len(has[capability.Bucket]) < 10 || !strings.Contains(fmt.Sprint(has[capability.Bucket]), `"answered":true`) {
		t.Fatalf("%d capabilities, none of them answered", len(has[capability.Bucket]))
	}
	must.Succeed(t, occupied(recordsOf(t, db)))
	sizes := make(map[int]bool)
	for _, s := range steps {
		sizes[len(s.updated)] = true
	}
	if len(sizes) < 2 {
		t.Fatal("the file never grew")
	}
	return steps, l
}

// complemented stands for a Sealer: every sealed byte changes, and no length.
func complemented(_, _ string, sealed []byte) ([]byte, error) {
	out := bytes.Clone(sealed)
	for n := range out {
		out[n] ^= 0xff
	}
	return out, nil
}

// afterCut opens what a power cut left, and returns all that is in it. goOn: and writes to it, and checks it.
func afterCut(t *testing.T, path string, file []byte, goOn bool) (has map[string]map[string]string, fellBack bool) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, file, 0o600))
	db, err := Open(path, Options{MaxSize: 8 << 20})
	must.Succeed(t, err)
	has, fellBack = recordsOf(t, db), db.Stats().FellBack
	if n := db.Stats().Damaged; n > 0 {
		t.Errorf("%d damaged", n)
	}
	if goOn {
		if err := db.PutBlob(ctxOf(t), "next", nil); err != nil {
			t.Error(err)
		}
	}
	if !goOn {
		err = db.Close()
	} else {
		closeChecked(t, db)
	}
	if err != nil {
		t.Error(err)
	}
	return has, fellBack
}

// afterCutWithLog has what a power cut left catch up with a log whose newest entry is top: it is what the log replays to.
func afterCutWithLog(t *testing.T, path string, file []byte, l *logtest.Log, top uint64) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, file, 0o600))
	o := Options{MaxSize: 8 << 20}.File()
	at, err := l.To(top).CatchUp(path, o)
	must.Succeed(t, err)
	if at.N > top { // it has a commit that nobody was told of and no other node will have: it is filled anew
		return
	}
	l.To(top).Check(t, path, o)
}

// TestPowerCuts: whatever is left of an unsynced commit, the database opens, and holds that commit or
// the one before it. When the commit's meta page is there and the rest is not whole, that is said.
func TestPowerCuts(t *testing.T) { // invariants 1 and 3
	t.Parallel()
	steps, l := busy(t)
	path := filepath.Join(t.TempDir(), "test.db")
	dice := rand.New(rand.NewPCG(3, 4))
	var before, after, said, cut int
	for cut < *cuts {
		n := dice.IntN(len(steps))
		s := steps[n]
		old, _ := afterCut(t, path, s.old, false)
		updated, _ := afterCut(t, path, s.updated, false)
		for range 10 {
			file, meta := torn(dice, s)
			has, fellBack := afterCut(t, path, file, cut%4 == 0)
			isOld, isNew := reflect.DeepEqual(has, old), reflect.DeepEqual(has, updated)
			switch {
			case !isOld && !isNew:
				t.Fatalf("cut %d in commit %d: it holds neither what was before nor what the commit made of it", cut, n)
			case isOld && !isNew:
				before++
				if fellBack != meta {
					t.Fatalf("cut %d in commit %d: its meta page is there: %v, and FellBack %v", cut, n, meta, fellBack)
				}
			case fellBack:
				t.Fatalf("cut %d in commit %d: it is there, and FellBack", cut, n)
			default:
				after++
			}
			if fellBack {
				said++
			}
			afterCutWithLog(t, path, file, l, s.entry-uint64(dice.IntN(2)))
			cut++
		}
	}
	if *cuts >= 500 && (before == 0 || after == 0 || said == 0) {
		t.Error("not every outcome was met")
	}
	t.Logf("%d cuts in %d commits: %d fell back, %d of those said so, %d kept the commit", cut, len(steps), before, said, after)
}

// torn is the file with a part of the commit's sectors. meta: the one with the meta page is among them.
func torn(dice *rand.Rand, s step) (file []byte, meta bool) {
	file = slices.Clone(s.old)
	if len(s.updated) > len(file) && dice.IntN(8) > 0 { // the new size is synced before anything is written
		file = append(file, make([]byte, len(s.updated)-len(file))...)
	}
	share, unit := dice.Float64(), sector
	switch dice.IntN(6) {
	case 0: // all but very little
		share = 0.97
	case 1:
		share = 1
	case 2: // whole pages
		unit = pageSize
	}
	take, withMeta := make(map[int]bool), dice.IntN(4) > 0
	for at := 0; at < len(file); at += sector {
		is := s.updated[at : at+sector]
		if bytes.Equal(file[at:at+sector], is) {
			continue
		}
		if _, ok := take[at/unit]; !ok {
			take[at/unit] = dice.Float64() < share
		}
		if at == 0 || at == pageSize { // the rest of a meta page never changes
			take[at/unit], meta = withMeta, withMeta
		}
		if take[at/unit] {
			copy(file[at:], is)
		}
	}
	return file, meta
}

// TestLostPages: a disk that says it has synced, and has lost a page of messages. What then stands
// in that place is a page that was once right, so only the digest tells.
func TestLostPages(t *testing.T) { // invariant 8
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	for n := range 40 {
		acceptOne(t, db, event(fmt.Sprintf("e%02d", n), 900), "i1")
	}
	type confirmed struct {
		file          []byte
		between, want string // of the commit before the last, and of the last
	}
	var steps []confirmed
	for n := range 12 { // as many as before, of the same size
		e, _, err := db.Lanes.Next(ctxOf(t), "i1", 0)
		must.Succeed(t, err)
		must.Succeed(t, acknowledge(ctxOf(t), db, "i1", e.Buffer))
		between := laneOf(t, db, "i1")
		acceptOne(t, db, event(fmt.Sprintf("f%02d", n), 900), "i1")
		steps = append(steps, confirmed{read(t, path), between, laneOf(t, db, "i1")})
	}
	at, noticed := filepath.Join(t.TempDir(), "test.db"), 0
	for n := range len(steps) - 1 {
		updated := steps[n+1]
		eachLostPage(t, steps[n].file, updated.file, func(p int, file []byte) {
			must.Succeed(t, os.WriteFile(at, file, 0o600))
			db, err := Open(at, Options{})
			if err != nil {
				noticed++
				return
			}
			defer closeChecked(t, db)
			got := laneOf(t, db, "i1")
			switch {
			case db.Stats().FellBack && got == updated.between:
				noticed++
			case got != updated.want:
				t.Errorf("commit %d without page %d: %s, want %s, and nobody says so", n+1, p, got, updated.want)
			}
		})
	}
	if noticed == 0 {
		t.Error("no page was missed")
	}
	t.Logf("%d lost pages were noticed", noticed)
}

// eachLostPage calls do with updated as it is when one of the pages that changed since old did not
// reach the disk. The meta pages do, and so does the root, which the meta page answers for.
func eachLostPage(t *testing.T, old, updated []byte, do func(page int, file []byte)) {
	t.Helper()
	m := newestMeta(t, updated)
	for p := 2; p*pageSize < len(old); p++ {
		was, is := old[p*pageSize:][:pageSize], updated[p*pageSize:][:pageSize]
		if bytes.Equal(was, is) || p == int(m.root) {
			continue
		}
		file := slices.Clone(updated)
		copy(file[p*pageSize:], was)
		do(p, file)
	}
}

// TestLostPagesOfAnyBucket: so outside the lanes.
func TestLostPagesOfAnyBucket(t *testing.T) { // invariant 8
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	db := reopen(t, path, Options{})
	enroll(t, db, "i1")
	bind := func(n int, dm relay.ChatID) {
		t.Helper()
		b := Binding{Platform: "loop", User: relay.UserID(fmt.Sprintf("u%03d", n)), Instance: "i1", DMChat: dm, BoundAt: time.Unix(1, 0)}
		must.Succeed(t, db.Bind(ctxOf(t), nil, b))
	}
	for n := range 100 {
		bind(n, "chat000")
	}
	var files [][]byte
	for n := range 12 { // the same size, so that an older page fits in the place of a newer one
		bind(n*8, relay.ChatID(fmt.Sprintf("chat%03d", n)))
		files = append(files, read(t, path))
	}
	at, silent, noticed := filepath.Join(t.TempDir(), "test.db"), 0, 0
	for n := range len(files) - 1 {
		eachLostPage(t, files[n], files[n+1], func(p int, file []byte) {
			must.Succeed(t, os.WriteFile(at, file, 0o600))
			if VerifyFile(at) != nil {
				noticed++
			}
			db, err := Open(at, Options{})
			if err != nil {
				return
			}
			defer closeChecked(t, db)
			if db.Stats().FellBack {
				if db.Stats().Damaged > 0 {
					t.Errorf("commit %d without page %d: %d damaged in the commit before", n+1, p, db.Stats().Damaged)
				}
				return
			}
			if all, err := db.Bindings(ctxOf(t), BindingFilter{Platform: "loop", User: relay.UserID(fmt.Sprintf("u%03d", (n+1)*8))}); err != nil || all[0].DMChat != relay.ChatID(fmt.Sprintf("chat%03d", n+1)) {
				silent++
			}
		})
	}
	if noticed == 0 || silent > 0 {
		t.Errorf("%d lost pages were noticed, %d were not", noticed, silent)
	}
}

func TestPowerCutAtTheFirstStart(t *testing.T) {
	t.Parallel()
	// The name appears when the file is whole and synced. Before that, the leftover may hold
	// anything; and a file system that orders nothing may show the name of a leftover only.
	path := filepath.Join(t.TempDir(), "whole.db")
	closeChecked(t, reopen(t, path, Options{}))
	whole := read(t, path)
	dice := rand.New(rand.NewPCG(5, 6))
	for n := range 40 {
		dir := t.TempDir()
		file := slices.Clone(whole[:dice.IntN(len(whole)+1)])
		for at := 0; at+sector <= len(file); at += sector {
			if dice.IntN(3) == 0 {
				clear(file[at : at+sector])
			}
		}
		path := filepath.Join(dir, "test.db")
		must.Succeed(t, os.WriteFile(path+".new-1", file, 0o600))
		db, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("state %d: %v", n, err)
		}
		closeChecked(t, db)
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("state %d: the folder holds %v", n, files)
		}
	}
}
