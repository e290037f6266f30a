package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookEvery is the least time between two looks at the key file while its keys fit.
const lookEvery = 5 * time.Second

// keyFile is the keys in a file. A file that was changed is read again; one that cannot be used
// leaves the last good set in place.
type keyFile struct {
	// Set once, by openKeyFile.
	path string
	now  func() time.Time
	log  *slog.Logger

	mu     sync.Mutex  // guards the fields below
	set    *keySet     // never nil
	seen   os.FileInfo // the file that set was read from
	looked time.Time
	fault  string // what was last logged about the file; empty: it is in order
}

// openKeyFile reads the file. Its error names it.
func openKeyFile(path string, now func() time.Time, log *slog.Logger) (*keyFile, error) {
	k := &keyFile{path: path, now: now, log: log, looked: now()}
	if err := k.read(); err != nil {
		return nil, fmt.Errorf("jwks_file: %s: %w", path, withoutPath(err))
	}
	if len(k.set.list) == 0 {
		return nil, fmt.Errorf("jwks_file: %s: no RSA signing key of %d bits or more", path, minKeyBits)
	}
	return k, nil
}

func (k *keyFile) current(context.Context) (*keySet, error) { return k.look(lookEvery), nil }

// newer looks at once: a look costs next to nothing, and a new key may be used the moment it is there.
func (k *keyFile) newer(context.Context, *keySet) *keySet { return k.look(0) }

// look is the set to go by, after a look at the file if the last one is that long ago.
func (k *keyFile) look(every time.Duration) *keySet {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if now.Sub(k.looked) < every {
		return k.set
	}
	k.looked = now
	switch err := k.read(); {
	case err == nil:
		k.fault = ""
	case err.Error() != k.fault:
		k.fault = err.Error()
		k.log.Warn("the key file cannot be used; the last good keys stay in use", "err", err)
	}
	return k.set
}

// read reads the file if it is not the one that was read last.
func (k *keyFile) read() error {
	info, err := os.Stat(k.path)
	if err != nil {
		return err
	}
	if k.seen != nil && os.SameFile(info, k.seen) && info.Size() == k.seen.Size() && info.ModTime().Equal(k.seen.ModTime()) {
		return nil
	}
	f, err := os.Open(k.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written
	text, err := readAll(f)
	if err != nil {
		return err
	}
	set, err := decodeKeys(text)
	if err != nil {
		return err
	}
	// What was looked at before the reading: a change in between shows at the next look.
	k.set, k.seen = set, info
	return nil
}

// withoutPath takes the path out of an error that is going to name it.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}
