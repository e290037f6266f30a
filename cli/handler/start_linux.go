package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// goneWithin is how long the kernel may take to end processes that it was told to kill.
const goneWithin = 10 * time.Second

// whole runs cmd and waits until the whole of it has ended: cmd, and everything in its cage or, without a cage, in its
// process group. cmd dies with this process, and inherits only the files that it names; bwrap also gets a file into
// which it writes the id of the cage's first process, and guardFile.
func whole(cmd *exec.Cmd, caged bool) error {
	// The files that this process inherited are not for its children.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return endGroup(cmd) }
	cmd.WaitDelay = time.Second // a process that left the group may keep the output open
	if !caged {
		if err := cmd.Start(); err != nil {
			return err
		}
		return errors.Join(ended(cmd), cmd.Wait())
	}
	done := make(chan error)
	go func() {
		// Keys belong to a thread and its children. Without an empty session of its own, the program would have the
		// keys of the user who started this process, such as the tickets of a login. The thread is never unlocked, so
		// it ends, with that session, after the cage.
		runtime.LockOSThread()
		_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // no process here can use keys
			err = nil
		}
		if err == nil {
			err = inCage(cmd)
		}
		done <- err
	}()
	return <-done
}

// inCage is whole for bwrap. Bwrap ends as soon as the program does. The processes that the program left in the cage
// are killed then, but they live a moment longer than bwrap, so inCage waits for them by the cage's first process.
func inCage(cmd *exec.Cmd) error {
	info, says, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = info.Close() }()
	guard, ours, err := os.Pipe()
	if err != nil {
		return errors.Join(err, says.Close())
	}
	defer func() { _ = ours.Close() }()
	cmd.ExtraFiles = []*os.File{says, guard} // infoFile and guardFile
	err = cmd.Start()
	_, _ = says.Close(), guard.Close() // the children have them now
	if err != nil {
		return err
	}
	first, err := firstIn(info)
	err = errors.Join(err, ended(cmd))
	if first >= 0 {
		err = errors.Join(err, emptied(first))
	}
	return errors.Join(err, gone(int(ours.Fd())), cmd.Wait())
}

// ended waits until cmd has ended, and then kills its process group. It does not reap cmd before, so that the kernel
// gives the group's number to nobody else.
func ended(cmd *exec.Cmd) error {
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	return endGroup(cmd)
}

func endGroup(cmd *exec.Cmd) error {
	err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// firstIn returns a descriptor of the first process of the cage, with which all others in the cage end. It is -1 if
// there is no such process, because bwrap failed or the process has ended.
func firstIn(info io.Reader) (pidfd int, err error) {
	var said struct {
		Pid int `json:"child-pid"`
	}
	if err := json.NewDecoder(info).Decode(&said); err != nil || said.Pid <= 1 {
		return -1, nil // bwrap reports the failure itself
	}
	pidfd, err = unix.PidfdOpen(said.Pid, 0)
	if errors.Is(err, unix.ESRCH) { // it has ended already
		return -1, nil
	}
	return pidfd, err
}

// emptied ends the first process of a cage, and waits until that process, and so everything in the cage, is gone.
func emptied(first int) error {
	defer func() { _ = unix.Close(first) }()
	if err := unix.PidfdSendSignal(first, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return gone(first)
}

// gone waits until a killed process has ended, if fd is its descriptor, or until all readers of a pipe have ended, if
// fd is the pipe's write end. It gives up after goneWithin.
func gone(fd int) error {
	for until := time.Now().Add(goneWithin); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(until).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("what it left does not end within %s", goneWithin)
		default:
			return nil
		}
	}
}
