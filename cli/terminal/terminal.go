//go:build unix

// Package terminal knows whether somebody sits at a file, whether what is typed there shows, and what must not be sent there.
package terminal

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Is reports whether f is a terminal that is still there, at which somebody can be asked.
func Is(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}

// Echo makes what has a terminal show what is typed, or not. restore sets it as it was.
func Echo(f *os.File) (set func(on bool), restore func()) {
	fd := int(f.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return func(bool) {}, func() {}
	}
	was, now := *before, *before
	now.Lflag &^= unix.ECHO
	var mu sync.Mutex // a signal restores while a question sets
	apply := func(t unix.Termios) {
		mu.Lock()
		defer mu.Unlock()
		_ = unix.IoctlSetTermios(fd, setTermios, &t) // a terminal that went away shows nothing any more
	}
	return func(on bool) {
		if on {
			apply(was)
		} else {
			apply(now)
		}
	}, func() { apply(was) }
}
