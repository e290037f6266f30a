package handler

import (
	"errors"
	"math"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// whole runs cmd and waits until it, and what it has started in its group, has ended. It dies with this process. Of this process's
// files it gets those that cmd names.
func whole(cmd *exec.Cmd) error {
	// What this process was started with is not ours to know, and its children's neither.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	end := func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return err
	}
	cmd.Cancel = end
	cmd.WaitDelay = time.Second // for one that left the group and holds on to its output
	if err := cmd.Start(); err != nil {
		return err
	}
	// It is left unreaped until its group is ended, so that the number is nobody else's.
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	return errors.Join(end(), cmd.Wait())
}
