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

// Watched is what some files say together. They are read again when one of them was changed; while they
// cannot be used (half written, say), what they said last stays. Its methods may be called from any goroutine.
type Watched[T any] struct {
	// Set once, by Watch.
	paths []string
	parse func(texts [][]byte) (T, error)
	now   func() time.Time
	fault func(error)

	good atomic.Pointer[T] // never nil after Watch

	mu     sync.Mutex // held by the one who looks; guards the fields below
	looked time.Time
	seen   []os.FileInfo // the files that were read last, whether or not they are good
	broken bool          // they are not: read them again, somebody may give us the right to
	said   string        // what fault was last called with
}

// Watch reads the files. fault is called once for each later change that cannot be used.
func Watch[T any](paths []string, now func() time.Time, parse func([][]byte) (T, error), fault func(error)) (*Watched[T], error) {
	w := &Watched[T]{paths: paths, parse: parse, now: now, fault: fault, looked: now()}
	if err := w.read(); err != nil {
		return nil, err
	}
	return w, nil
}

// Get is what to go by, after a look at the files if the last one is that long ago. Only with 0 does it wait
// for another one's look.
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

// read reads the files if they are not those that were read last, or if those were broken.
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
	// What was looked at before the reading: a change in between shows at the next look.
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

// same reports whether a file is as it was. One that was replaced is another, whatever its time.
func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
