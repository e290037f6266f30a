package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestFailedSyncIsRetracted: what a failed sync was to bring to the disk is in memory, looks whole to the next
// process, and may never get there. So the next process goes by the commit before.
func TestFailedSyncIsRetracted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	o := options()
	var opened *os.File
	o.OpenFile = func(p string, flag int, mode fs.FileMode) (_ *os.File, err error) {
		opened, err = os.OpenFile(p, flag, mode)
		return opened, err
	}
	fails := false
	o.BeforeSync = func() {
		if !fails {
			return
		}
		zero, err := os.OpenFile("/dev/zero", os.O_RDWR, 0) // which takes all and cannot sync
		if err == nil {
			err = errors.Join(syscall.Dup3(int(zero.Fd()), int(opened.Fd()), syscall.O_CLOEXEC), zero.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}
	f := openTest(t, path, o)
	put(t, f, "k", "old")
	writes, err := os.OpenFile(path, os.O_RDWR, 0) // it takes writes still
	must.Succeed(t, err)
	defer writes.Close()
	f.file, fails = writes, true
	if err := f.Do(t.Context(), putting("k", "new")); !errors.Is(err, ErrFailed) {
		t.Errorf("got %v, want ErrFailed", err)
	}
	if err := f.Close(nil); err != nil {
		t.Error(err)
	}
	f = openTest(t, path, options())
	if got := stored(t, f, "k"); got != "old" || !f.Stats().FellBack {
		t.Errorf("it holds %q, and FellBack %v; want the commit before, and that said", got, f.Stats().FellBack)
	}
}

// TestHalfRetracted: a retraction that was cut short leaves one commit or the other, and a whole one takes effect.
func TestHalfRetracted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	f := openTest(t, path, options())
	put(t, f, "k", "old")
	put(t, f, "k", "new")
	at := int64(f.Committed()%2)*PageSize + pageHeader
	must.Succeed(t, f.Close(nil))
	before, err := os.ReadFile(path)
	must.Succeed(t, err)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must.Succeed(t, err)
	must.Succeed(t, retract(file, at), file.Close())
	after, err := os.ReadFile(path)
	must.Succeed(t, err)
	for done := range metaSize - metaSumAt + 1 {
		t.Run(fmt.Sprint(done, " bytes"), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			end := at + metaSumAt + int64(done)
			want := "new"
			if string(before[:end]) != string(after[:end]) {
				want = "old"
			}
			if done == metaSize-metaSumAt && want == "new" {
				t.Error("retract changed nothing")
			}
			must.Succeed(t, os.WriteFile(path, append(after[:end:end], before[end:]...), 0o600))
			f := openTest(t, path, options())
			if got := stored(t, f, "k"); got != want || f.Stats().FellBack != (want == "old") {
				t.Errorf("it holds %q, and FellBack %v; want %q", got, f.Stats().FellBack, want)
			}
			put(t, f, "k", "newer") // and it goes on
		})
	}
}
