package boltfile

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"time"
)

// A full disk is no damage: bbolt rolls the transaction back, and no meta page mentions it. From then on changes that
// make the file grow are refused. Deletions are still tried, because they mostly find space inside the file, and an
// acknowledgement that is not stored means that a message comes again. Now and then the writer asks the disk for some
// space (askForSpace). When the disk gives it, the writer accepts everything again.
const (
	someSpace  = 256 << 10   // bytes
	firstPause = time.Second // doubled after every try
	maxPause   = 30 * time.Second
)

// noSpace reports whether err is a write or a growth of the file that was refused for lack of space. The same error
// from a sync does not count: the data that the sync was to bring to the disk may be gone.
func noSpace(err error) bool {
	if err == nil {
		return false
	}
	write, isPath := errors.AsType[*fs.PathError](err)
	for _, no := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if isPath && write.Op == "write" && errors.Is(write.Err, no) {
			return true
		}
		// bbolt passes on only the text of this error.
		if text := err.Error(); strings.HasPrefix(text, "file resize error: ") && strings.HasSuffix(text, no.Error()) {
			return true
		}
	}
	return false
}

// asBefore reports whether the newest commit in the file is the last one that was synced. After a failed write that
// could be false: if the write was that of a meta page, and the whole page arrived.
func (f *File) asBefore() bool {
	t, err := f.begin(false)
	if err != nil {
		return false
	}
	defer t.Rollback()
	return int64(t.ID()) == f.synced.Load()
}

// refuseGrowth refuses ops that make the file grow until there is space again.
func (f *File) refuseGrowth(why error) {
	f.diskFull, f.pause = true, firstPause
	f.o.Log.Error("the disk is full: new messages are refused until there is space again, and stay with the platforms", "err", why)
	f.askLater()
}

// askLater makes the writer ask for space after the pause. The timer's function queues an op, and does not wait.
func (f *File) askLater() {
	f.timer = time.AfterFunc(f.pause, func() {
		_ = f.queue.push(&Op{Run: func(Batch) error { // an error says that the file is closed: nobody needs space any more
			f.due = true
			return nil
		}})
	})
}

// askForSpace writes zeros behind the pages in use, where nobody reads and the file would grow next. If the disk has no
// space, it tries again after a longer pause.
func (f *File) askForSpace() error {
	f.due = false
	t, err := f.begin(false)
	if err != nil {
		return err
	}
	end := t.Size()
	if err := t.Rollback(); err != nil {
		return err
	}
	if step := min(someSpace, f.o.MaxSize-end); step > 0 {
		_, err = f.file.WriteAt(make([]byte, step), end)
	}
	switch {
	case noSpace(err):
		f.pause = min(2*f.pause, maxPause)
		f.askLater()
		return nil
	case err == nil:
		f.diskFull = false
		f.o.Log.Info("there is space on the disk again")
	}
	return err
}
