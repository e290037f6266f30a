package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// diskSize is how large the disk of a node's database is, in bytes: far larger than that, and what is set aside beside it.
const diskSize = 256 << 20

// disk is a file system for a node's database alone: it can be full, and it can stop working.
type disk struct {
	t             *testing.T
	image, folder string
	media         string // where the node's files are, which this is not about

	mu      sync.Mutex // guards the field below
	stopped bool
}

// newDisk makes one at the data folder of the node in dir; nil: the test may not.
func newDisk(t *testing.T, dir string) *disk {
	t.Helper()
	d := &disk{t: t, image: filepath.Join(dir, "disk"), folder: filepath.Join(dir, "data"), media: filepath.Join(dir, "media")}
	f, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(f.Truncate(diskSize), f.Close(), os.Mkdir(d.folder, 0o700), os.Mkdir(d.media, 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", d.image).CombinedOutput()
	if err == nil {
		out, err = exec.Command("mount", "-o", "loop", d.image, d.folder).CombinedOutput()
	}
	if err != nil {
		t.Logf("no disk of a node is full, or stops: %v: %s", err, out)
		return nil
	}
	t.Cleanup(func() { d.leaves(unix.MNT_DETACH) })
	inside := filepath.Join(d.folder, "media")
	if err := errors.Join(os.Remove(filepath.Join(d.folder, "lost+found")), os.Chmod(d.folder, 0o700), os.Mkdir(inside, 0o700), unix.Mount(d.media, inside, "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	return d
}

// leaves takes it out of the tree.
func (d *disk) leaves(how int) {
	if err := errors.Join(unix.Unmount(filepath.Join(d.folder, "media"), how), unix.Unmount(d.folder, how)); err != nil {
		d.t.Error(d.folder, err)
	}
}

func (d *disk) filler() string { return filepath.Join(d.folder, "filler") }

// fills leaves no room.
func (d *disk) fills() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	f, err := os.Create(d.filler())
	if err != nil {
		d.t.Error(err)
		return
	}
	at := int64(0)
	for size := int64(16 << 20); size >= 1<<10; {
		switch err := unix.Fallocate(int(f.Fd()), 0, at, size); {
		case errors.Is(err, unix.ENOSPC):
			size /= 2
		case err != nil:
			d.t.Error(err)
			size = 0
		default:
			at += size
		}
	}
	if err := f.Close(); err != nil {
		d.t.Error(err)
	}
}

// empties makes room again.
func (d *disk) empties() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := os.Remove(d.filler()); err != nil && !d.stopped && !errors.Is(err, os.ErrNotExist) {
		d.t.Error(err)
	}
}

// stops has nothing be written any more. What was not synced is lost, as in a power cut.
func (d *disk) stops() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	f, err := os.Open(d.folder)
	if err == nil {
		const shutdown, noLogFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, as linux/fs/ext4/ext4.h has it
		err = errors.Join(unix.IoctlSetPointerInt(int(f.Fd()), shutdown, noLogFlush), f.Close())
	}
	if err != nil {
		d.t.Error(err)
	}
	d.stopped = true
}

// begins has a disk that stopped work again, with what is on it and room. Nobody has a file of it open.
func (d *disk) begins() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		return
	}
	d.leaves(0)
	out, err := exec.Command("mount", "-o", "loop", d.image, d.folder).CombinedOutput()
	if err == nil {
		err = unix.Mount(d.media, filepath.Join(d.folder, "media"), "", unix.MS_BIND, "")
	}
	if err != nil {
		d.t.Error(fmt.Errorf("mount: %w: %s", err, out))
	}
	d.stopped = false
	if err := os.Remove(d.filler()); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Error(err)
	}
}
