//go:build !linux

package handler

import (
	"errors"
	"os/exec"
)

// whole returns an error: only Linux has the cages that handlers run in.
func whole(*exec.Cmd, bool) error { return errors.New("handlers run on Linux only") }
