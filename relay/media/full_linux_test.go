package media

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// fill puts /dev/full, which has no space for any write, in the place of the file that is being written.
func fill(t *testing.T) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range open {
		name, err := os.Readlink(fd)
		if err != nil || !strings.HasSuffix(name, partSuffix) {
			continue
		}
		var number int
		for _, digit := range filepath.Base(fd) {
			number = number*10 + int(digit-'0')
		}
		if err := syscall.Dup3(int(full.Fd()), number, syscall.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d files are being written, want one", n)
	}
}

// TestDiskFullWhileWriting: the system itself takes no more. An upload is refused, a fetch waits, whoever waits for it hears
// why, nothing of either stays, and both work once there is room.
func TestDiskFullWhileWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isFull atomic.Bool
		isFull.Store(true)
		r := newRig(t, Options{Timeout: 10 * time.Second, Step: func(s string) {
			if s == "made" && isFull.Load() {
				fill(t)
			}
		}}, "i1")
		put := func() error {
			_, _, err := r.k.Put(t.Context(), "i1", "n", 100_000, bytes.NewReader(sized(100_000)))
			return err
		}
		if err := put(); !errors.Is(err, ErrNoSpace) {
			t.Errorf("upload: %v, want ErrNoSpace", err)
		}
		r.net.has("a", sized(100_000))
		ev, _ := r.accept(one, 100_000, "a")
		r.want(ev, relay.MediaNoSpace)
		if s := r.counted(); s.Files != 0 || s.Bytes != 0 || s.Pending != 1 {
			t.Errorf("%+v, want one that waits", s)
		}
		if left := r.names(); len(left) != 0 {
			t.Errorf("the folder holds %q", left)
		}
		isFull.Store(false)
		time.Sleep(2 * silentFor)
		synctest.Wait()
		r.want(ev, relay.MediaHeld)
		if err := put(); err != nil {
			t.Errorf("upload when there is room: %v", err)
		}
		if s := r.counted(); s.Files != 2 || s.Bytes != 200_000 || s.Pending != 0 {
			t.Errorf("%+v, want both", s)
		}
	})
}
