//go:build !linux

package handler

import (
	"errors"
	"os/exec"
)

// whole refuses: what a handler runs in is Linux's.
func whole(*exec.Cmd, bool) error { return errors.New("handlers run on Linux only") }
