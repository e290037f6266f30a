package files

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxWatched bounds a watched file, in bytes.
const maxWatched = 1 << 20

// Watched holds the value that some files describe together. It reads them again when one of them has changed. While
// they cannot be used (for example because one is half written), it keeps the former value. Get may be called from any
// goroutine.
type Watched[T any] struct {
	// Set once, by Watch.
	paths []string
	parse func(texts [][]byte) (T, error)
	now   func() time.Time
	fault func(error)

	good atomic.Pointer[T] // never nil after Watch

	mu     sync.Mutex // locked while the files are checked; guards the fields below
	looked time.Time
	seen   []os.FileInfo // the files as they were read last, whether or not they can be used
	broken bool          // seen cannot be used: every check reads the files again, because their mode may have changed
	said   string        // the text of the last error that fault got; empty: the files can be used
}

// Watch reads the files. fault is called once for each later change that cannot be used.
func Watch[T any](paths []string, now func() time.Time, parse func([][]byte) (T, error), fault func(error)) (*Watched[T], error) {
	w := &Watched[T]{paths: paths, parse: parse, now: now, fault: fault, looked: now()}
	if err := w.read(); err != nil {
		return nil, err
	}
	return w, nil
}

// Get returns the value. It checks the files first if the last check is at least every ago. While another goroutine
// checks, Get returns the present value; only if every is 0 does it wait.
func (w *Watched[T]) Get(every time.Duration) T {
	if every == 0 {
		w.mu.Lock()
	} else if !w.mu.TryLock() {
		return *w.good.Load()
	}
	defer w.mu.Unlock()
	if now := w.now(); now.Sub(w.looked) >= every {
		w.looked = now
		before := w.seen
		switch err := w.read(); {
		case err == nil:
			w.said = ""
		case err.Error() != w.said || !slices.EqualFunc(before, w.seen, same):
			w.said = err.Error()
			w.fault(err)
		}
	}
	return *w.good.Load()
}

// read reads the files if one has changed since they were read, or if the last read was unusable.
func (w *Watched[T]) read() error {
	now := make([]os.FileInfo, len(w.paths))
	for i, name := range w.paths {
		var err error
		if now[i], err = os.Stat(name); err != nil {
			return err
		}
	}
	if !w.broken && slices.EqualFunc(now, w.seen, same) {
		return nil
	}
	// now is from before the reading, so a change in between is found by the next check.
	w.seen, w.broken = now, true
	texts := make([][]byte, len(w.paths))
	for i, name := range w.paths {
		var err error
		if texts[i], err = readFile(name); err != nil {
			return err
		}
	}
	v, err := w.parse(texts)
	if err == nil {
		w.good.Store(&v)
		w.broken = false
	}
	return err
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, maxWatched+1))
	if err == nil && len(text) > maxWatched {
		err = fmt.Errorf("%s: longer than %d bytes", name, maxWatched)
	}
	return text, err
}

// same reports whether a file is unchanged. A file that was replaced has changed, whatever its time.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
