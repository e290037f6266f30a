//go:build unix

// Package terminal finds out whether a file is a terminal, controls which typed text is shown there, and spells
// characters that a terminal would obey.
package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Is reports whether f is a terminal that still exists: a closed window's does not.
func Is(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}
