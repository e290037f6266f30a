package boltfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/store/files"
	"github.com/hermes-connector/hermes-connector/testdata/must"
	bolt "go.etcd.io/bbolt"
)

func TestCreationNeverReplaces(t *testing.T) {
	// Another process, that has found no database either, comes second.
	path := filepath.Join(t.TempDir(), "test.db")
	put(t, openTest(t, path, options()), "k", "v")
	before, err := os.ReadFile(path)
	must.Succeed(t, err)
	must.Succeed(t, create(path, options()))
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("%v, or the other one's database was replaced", err)
	}
}

// TestWaitingForAReplacedFile: who got the lock of a file that has just been replaced must not
// write into it.
func TestWaitingForAReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	must.Succeed(t, openTest(t, path, options()).Close(nil))
	o := options()
	o.OpenFile = func(p string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(p, flag, mode)
		if err != nil { // between the opening and the lock
			return nil, err
		}
		content, err := os.ReadFile(path)
		if err == nil {
			err = errors.Join(os.WriteFile(path+".new-1", content, 0o600), files.Replace(path+".new-1", path, ""))
		}
		return f, err
	}
	if _, _, err := lock(path, o); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("got %v, want that the file was replaced", err)
	}
}

func TestBatchIsBoundedInBytes(t *testing.T) {
	q := queue{wake: make(chan struct{}, 1)}
	for _, size := range []int{BatchBytes / 2, BatchBytes / 2, 1, 2 * BatchBytes, 1} {
		must.Succeed(t, q.push(&Op{Size: size}))
	}
	var got []int
	for len(q.ops) > 0 {
		got = append(got, len(q.drainLocked()))
	}
	if fmt.Sprint(got) != "[2 1 1 1]" {
		t.Errorf("batches of %v ops, want 2, 1, 1 and 1", got)
	}
}

// TestNotLooked: what the system refuses is no damage, and no reason to restore a backup.
func TestNotLooked(t *testing.T) {
	refused := &fs.PathError{Op: "read", Path: "x", Err: syscall.EMFILE}
	if err := Advised(unsound(fmt.Errorf("page 4: %w", refused))); errors.Is(err, ErrDamaged) || err.Error() != "page 4: read x: too many open files" {
		t.Errorf("got %v, want what the system says and nothing else", err)
	}
	if err := Advised(unsound(io.ErrUnexpectedEOF)); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), Remedy) {
		t.Errorf("got %v, want damage and what to do", err)
	}
}

func TestNoSpace(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"a write":                {&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, true},
		"a write over the quota": {fmt.Errorf("commit: %w", &fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}), true},
		"a growth":               {fmt.Errorf("file resize error: %s", &fs.PathError{Op: "truncate", Path: "x", Err: syscall.ENOSPC}), true},
		"a broken growth":        {fmt.Errorf("file resize error: %s", &fs.PathError{Op: "truncate", Path: "x", Err: syscall.EIO}), false},
		"a sync after a growth":  {fmt.Errorf("file sync error: %s", &fs.PathError{Op: "sync", Path: "x", Err: syscall.ENOSPC}), false},
		"a sync":                 {syscall.ENOSPC, false},
		"another sync":           {&fs.PathError{Op: "sync", Path: "x", Err: syscall.ENOSPC}, false},
		"a broken write":         {&fs.PathError{Op: "write", Path: "x", Err: syscall.EIO}, false},
		"nothing":                {nil, false},
	} {
		if got := noSpace(tc.err); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestReadsWaitForTheSync(t *testing.T) { synctest.Test(t, testReadsWaitForTheSync) }

func testReadsWaitForTheSync(t *testing.T) {
	o := options()
	reached, goOn := make(chan struct{}), make(chan struct{})
	hold := false
	o.BeforeSync = func() {
		if hold {
			hold = false
			reached <- struct{}{}
			<-goOn
		}
	}
	f := openTest(t, "", o)
	put(t, f, "x", "old")
	hold = true
	must.Succeed(t, f.Push(putting("x", "new")))
	<-reached // written, and not synced
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Read(ctx, func(*bolt.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context canceled", err)
	}
	read := make(chan string)
	go func() { read <- stored(t, f, "x") }()
	synctest.Wait() // until the reader waits
	select {
	case got := <-read:
		t.Errorf("read %q before the sync", got)
	default:
	}
	close(goOn)
	select {
	case got := <-read:
		if got != "new" {
			t.Errorf("read %q, which is not synced", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("the reader waits for ever")
	}
	if got := stored(t, f, "x"); got != "new" {
		t.Errorf("read %q, want new", got)
	}
}

// TestSameChangeTwice: the digest tells two records from two others that differ from them in the same bits.
func TestSameChangeTwice(t *testing.T) {
	var is, was Digest
	var sums uint32 // the checksums of all, bit by bit
	for _, k := range []string{"k1", "k2"} {
		before, now := Seal([]byte(k), []byte("a chat of before")), Seal([]byte(k), []byte("a chat of now..."))
		was, is = was.with([]byte(k), before), is.with([]byte(k), now)
		sums ^= Checksum([]byte(k), before) ^ Checksum([]byte(k), now)
	}
	if sums != 0 {
		t.Error("checksums alone would have told")
	}
	if is.Sum == was.Sum {
		t.Error("the digest does not tell")
	}
}
