package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/store/boltfile"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// disk is the descriptor of an open database, in whose place another can be put: /dev/full has no
// space for a write, a read-only file takes none, and /dev/zero takes all and cannot sync. The
// mapping bbolt reads through stays.
type disk struct {
	t    *testing.T
	fd   int
	real int // a copy of what it was
}

// onDisk opens path so that its disk can fail.
func onDisk(t *testing.T, path string, o Options) (*DB, *disk) {
	t.Helper()
	var file *os.File
	o.OpenFile = func(p string, flag int, mode fs.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(p, flag, mode)
		return file, err
	}
	db, err := Open(path, o)
	must.Succeed(t, err)
	fd := int(file.Fd())
	kept, err := syscall.Dup(fd)
	must.Succeed(t, err)
	return db, &disk{t, fd, kept}
}

// becomes puts the file name in the place of the database's.
func (d *disk) becomes(name string, flag int) {
	d.t.Helper()
	f, err := os.OpenFile(name, flag, 0)
	must.Succeed(d.t, err)
	defer f.Close()
	must.Succeed(d.t, syscall.Dup3(int(f.Fd()), d.fd, syscall.O_CLOEXEC))
}

func (d *disk) heals() {
	d.t.Helper()
	must.Succeed(d.t, syscall.Dup3(d.real, d.fd, syscall.O_CLOEXEC))
}

func (d *disk) close() { _ = syscall.Close(d.real) }

// journal is a log that may be read while it is written to.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// roomy fills db and empties it again, so that what follows finds free pages in the file.
func roomy(t *testing.T, db *DB) {
	t.Helper()
	for n := range 30 {
		out := acceptOne(t, db, event(fmt.Sprintf("room%d", n), 4000), "i1")
		if n%2 == 0 {
			must.Succeed(t, acknowledge(ctxOf(t), db, "i1", out.Buffers[0]))
		}
	}
	must.Succeed(t, db.PutBlob(ctxOf(t), "big", make([]byte, 400_000)))
	must.Succeed(t, db.PutBlob(ctxOf(t), "big", nil))
	if err := db.PutBlob(ctxOf(t), "big", nil); err != nil { // now its pages are free
		t.Fatal(err)
	}
}

// TestFullDisk: refused, said once, read from, and healed without help.
func TestFullDisk(t *testing.T) { // invariants 1 and 2
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		var text journal
		db, d := onDisk(t, path, Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
		defer d.close()
		ctx := ctxOf(t)
		enroll(t, db, "i1")
		roomy(t, db)
		acceptOne(t, db, event("before", 300), "i1")
		had := laneOf(t, db, "i1")

		d.becomes("/dev/full", os.O_RDWR)
		for n := range 3 {
			if _, err := db.Accept(ctx, acceptFor(event(fmt.Sprint("refused", n), 300), "i1")); !errors.Is(err, ErrNoSpace) {
				t.Fatalf("accept on a full disk: %v, want ErrNoSpace", err)
			}
		}
		if err := db.PutBlob(ctx, "x", nil); !errors.Is(err, ErrNoSpace) {
			t.Errorf("a write on a full disk: %v, want ErrNoSpace", err)
		}
		if err := db.Probe(); !errors.Is(err, ErrNoSpace) {
			t.Errorf("Probe: %v, want ErrNoSpace", err)
		}
		if got := laneOf(t, db, "i1"); got != had {
			t.Errorf("read %s, want %s", got, had)
		}
		commits := db.Stats().Commits
		time.Sleep(5 * time.Minute) // it tries now and then
		synctest.Wait()
		if err := db.Probe(); !errors.Is(err, ErrNoSpace) || db.records.File.Err() != nil {
			t.Errorf("Probe %v, Err %v; want ErrNoSpace and nil", err, db.records.File.Err())
		}
		if n := strings.Count(text.String(), "level=ERROR"); n != 1 {
			t.Errorf("%d lines about it, want one: %s", n, &text)
		}

		d.heals()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if err := db.Probe(); err != nil {
			t.Errorf("Probe when there is room again: %v", err)
		}
		if got := db.Stats().Commits; got != commits {
			t.Errorf("%d commits for nothing", got-commits)
		}
		acceptOne(t, db, event("after", 300), "i1")
		acceptOne(t, db, event("refused0", 300), "i1") // which the platform has kept
		size, _ := os.Stat(path)
		time.Sleep(time.Hour) // and no more tries
		if again, _ := os.Stat(path); !again.ModTime().Equal(size.ModTime()) {
			t.Error("the file is written to although all is well")
		}
		closeChecked(t, db)
	})
	if err := VerifyFile(path); err != nil {
		t.Error(err)
	}
	db := reopen(t, path, Options{})
	if got := laneOf(t, db, "i1"); !strings.Contains(got, "before after refused0") || strings.Contains(got, "refused1") {
		t.Errorf("reopened: %s", got)
	}
}

// TestFullDiskAgainAndAgain: every rollback leaves a sound file, whatever was being written.
func TestFullDiskAgainAndAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		db, d := onDisk(t, path, Options{Limits: Limits{MaxEntries: 20}})
		defer d.close()
		enroll(t, db, "i1", "i2")
		roomy(t, db)
		for n := range 30 {
			id := fmt.Sprintf("e%02d", n)
			d.becomes("/dev/full", os.O_RDWR)
			if _, err := db.Accept(ctxOf(t), acceptFor(event(id, 300+n*200), "i1", "i2")); !errors.Is(err, ErrNoSpace) {
				t.Fatalf("round %d: %v", n, err)
			}
			d.heals()
			if err := db.PutBlob(ctxOf(t), id, []byte(id)); err != nil { // what does not grow is tried at once
				t.Fatalf("round %d: %v", n, err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			acceptOne(t, db, event(id, 300+n*200), "i2")
		}
		closeChecked(t, db)
	})
	if err := VerifyFile(path); err != nil {
		t.Error(err)
	}
	db := reopen(t, path, Options{})
	if got := len(blobNames(t, db)); got != 31 {
		t.Errorf("%d blobs, want 30 and one", got)
	}
}

// TestMixedBatchOnAFullDisk: acknowledgements find room in the file, so nothing is delivered twice.
func TestMixedBatchOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	synctest.Test(t, func(t *testing.T) {
		db, d := onDisk(t, path, Options{})
		defer d.close()
		enroll(t, db, "i1")
		roomy(t, db)
		d.becomes("/dev/full", os.O_RDWR)
		if _, err := db.Accept(ctxOf(t), acceptFor(event("refused", 300), "i1")); !errors.Is(err, ErrNoSpace) {
			t.Fatalf("accept on a full disk: %v, want ErrNoSpace", err)
		}
		d.heals() // and nobody has noticed yet
		release := hold(t, db)
		outcome := make(chan error, 1)
		go func() { outcome <- second(db.Accept(ctxOf(t), acceptFor(event("e", 300), "i1"))) }()
		waiting(db, 1)
		ops := line(t, db, putBlob("acknowledged"))
		release()
		if err := <-outcome; !errors.Is(err, ErrNoSpace) {
			t.Errorf("what grows: %v, want ErrNoSpace", err)
		}
		if err := ops[0].Wait(); err != nil {
			t.Errorf("what deletes: %v", err)
		}
		closeChecked(t, db)
	})
}

// TestBrokenDisk: what cannot be trusted again ends the database, and nothing is confirmed.
func TestBrokenDisk(t *testing.T) { // invariants 1 and 2
	for name, tc := range map[string]struct {
		file string
		flag int
	}{
		"a write fails": {"", os.O_RDONLY},
		"a sync fails":  {"/dev/zero", os.O_RDWR},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			db, d := onDisk(t, path, Options{})
			defer d.close()
			enroll(t, db, "i1")
			roomy(t, db)
			acceptOne(t, db, event("before", 300), "i1")
			had := laneOf(t, db, "i1")
			file := tc.file
			if file == "" {
				file = path
			}
			d.becomes(file, tc.flag)
			_, err := db.Accept(ctxOf(t), acceptFor(event("lost", 300), "i1"))
			if !errors.Is(err, ErrFailed) {
				t.Fatalf("got %v, want ErrFailed", err)
			}
			<-db.Failed()
			d.heals()
			if _, err := db.Accept(ctxOf(t), acceptFor(event("later", 300), "i1")); !errors.Is(err, ErrFailed) {
				t.Errorf("after it healed: %v, want ErrFailed all the same", err)
			}
			if err := db.Probe(); !errors.Is(err, ErrFailed) {
				t.Errorf("Probe: %v", err)
			}
			if got := laneOf(t, db, "i1"); got != had {
				t.Errorf("read %s, want %s", got, had)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if got := laneOf(t, reopen(t, path, Options{}), "i1"); got != had {
				t.Errorf("reopened: %s, want %s", got, had)
			}
		})
	}
}

// TestUnreadablePage: bbolt reads through a mapping, where a page that the disk does not give back
// is a fault, which would end the process with a page of stacks.
func TestUnreadablePage(t *testing.T) { // invariant 2
	t.Parallel()
	read := func(t *testing.T, db *DB) error {
		_, _, err := db.Lanes.Next(ctxOf(t), "i1", 0)
		return err
	}
	write := func(t *testing.T, db *DB) error {
		_, err := db.Accept(ctxOf(t), acceptFor(event("lost", 300), "i1"))
		return err
	}
	for name, tc := range map[string]struct {
		left int64 // bytes of the file: what is behind them cannot be read
		meet func(*testing.T, *DB) error
	}{
		"a read":                      {2 * pageSize, read},
		"a write":                     {2 * pageSize, write},
		"a read of the meta pages":    {0, read},
		"a write, with no meta pages": {0, write},
		"a read of one meta page":     {pageSize, read},
		"a write, with one meta page": {pageSize, write},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			db, err := Open(path, Options{})
			must.Succeed(t, err)
			enroll(t, db, "i1")
			acceptOne(t, db, event("before", 300), "i1")
			must.Succeed(t, os.Truncate(path, tc.left))
			if err := tc.meet(t, db); !errors.Is(err, ErrFailed) || !errors.Is(err, boltfile.ErrUnread) {
				t.Errorf("got %v, want ErrFailed, because of boltfile.ErrUnread", err)
			}
			<-db.Failed()
			if _, err := db.Lanes.Entries(ctxOf(t), "i1", EntryFilter{}); !errors.Is(err, boltfile.ErrUnread) {
				t.Errorf("a read after it: %v, want boltfile.ErrUnread", err)
			}
			if err := db.Probe(); !errors.Is(err, ErrFailed) {
				t.Errorf("Probe: %v, want ErrFailed", err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFullDiskAtTheFirstStart: one clear line, nothing left behind, and the next start works.
func TestFullDiskAtTheFirstStart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "test.db")
	full := func(path string, flag int, mode fs.FileMode) (*os.File, error) {
		return os.OpenFile("/dev/full", flag, mode)
	}
	_, err := Open(path, Options{OpenFile: full})
	if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v, want one line about the space", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("the folder holds %v", files)
	}
	enroll(t, reopen(t, path, Options{}), "i1")
}
