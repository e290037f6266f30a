// Package media keeps files.
package media

import "errors"

// Why a file is not there, or not taken.
var (
	ErrNoFile   = errors.New("no such file")
	ErrEmpty    = errors.New("the file is empty")
	ErrTooLarge = errors.New("the file is too large")
	ErrNoSpace  = errors.New("no space for the file")
)
