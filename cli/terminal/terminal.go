//go:build unix

// Package terminal tells whether a person sits at a file, controls which typed text is shown there, and removes what
// must not be sent there.
package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Is reports whether f is a terminal that is still there, at which somebody can be asked.
func Is(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}
