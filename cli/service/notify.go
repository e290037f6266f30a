package service

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Manager reports the server's state to the service manager: ready, reloading, stopping, and alive. Without
// $NOTIFY_SOCKET, and as the zero value, it reports nothing. Its methods may be called from any goroutine.
type Manager struct {
	socket string        // where the service manager listens; empty: there is none
	alive  time.Duration // the pause between two signs of life, half of what the manager allows; 0: it wants none
}

// ManagerOf returns the manager of a process whose environment env reads.
func ManagerOf(env func(name string) string) Manager {
	m := Manager{socket: env("NOTIFY_SOCKET")}
	pid := env("WATCHDOG_PID")
	if us, err := strconv.ParseInt(env("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.alive = time.Duration(us) * time.Microsecond / 2
	}
	return m
}

// Asked reports whether a service manager wants to know the server's state.
func (m Manager) Asked() bool { return m.socket != "" }

// Ready reports that the start, or a reload, is done. status describes the server in one line.
func (m Manager) Ready(status string) { m.tell("READY=1", "STATUS="+status) }

// Reloading reports that the configuration is being read again. A call of Ready must follow.
func (m Manager) Reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return // without the time a manager could not tell which Ready belongs to this reload, so it gets no message
	}
	m.tell("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(now.Nano()/int64(time.Microsecond), 10))
}

// Stopping reports that the server stops, and why.
func (m Manager) Stopping(why string) { m.tell("STOPPING=1", "STATUS=stopping: "+why) }

// Watch reports until ctx ends that the process is alive, as often as the manager wants. It calls check first, which
// does not return while the server hangs. Then nothing is reported, and the manager restarts the server.
func (m Manager) Watch(ctx context.Context, check func(context.Context)) {
	if m.alive == 0 || !m.Asked() {
		return
	}
	tick := time.NewTicker(m.alive)
	defer tick.Stop()
	for {
		check(ctx)
		m.tell("WATCHDOG=1")
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tell sends lines to the manager. Errors are ignored: the manager may not listen any more.
func (m Manager) tell(lines ...string) {
	if m.socket == "" {
		return
	}
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(l, "\n", " ")
	}
	// The socket's name may begin with "@": that is a socket without a file, which package net understands.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	_, _ = conn.Write([]byte(strings.Join(lines, "\n")))
	_ = conn.Close()
}
