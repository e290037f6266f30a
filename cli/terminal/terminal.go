//go:build unix

// Package terminal knows whether somebody sits at a file, whether what is typed there shows, and what must not be sent there.
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
