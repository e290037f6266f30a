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
	socket string        // empty: nobody asked
	alive  time.Duration // how often it wants to hear that this process is alive; 0: not at all
}

// ManagerOf returns the manager of a process with such an environment.
func ManagerOf(env func(name string) string) Manager {
	m := Manager{socket: env("NOTIFY_SOCKET")}
	pid := env("WATCHDOG_PID")
	if us, err := strconv.ParseInt(env("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.alive = time.Duration(us) * time.Microsecond / 2
	}
	return m
}

// Asked reports whether somebody listens.
func (m Manager) Asked() bool { return m.socket != "" }

// Ready says that the start, or a reload, is done, and in a line how the server is.
func (m Manager) Ready(status string) { m.tell("READY=1", "STATUS="+status) }

// Reloading says that the configuration is being read again; Ready ends it.
func (m Manager) Reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return // a manager that cannot order the messages must not get one
	}
	m.tell("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(now.Nano()/int64(time.Microsecond), 10))
}

// Stopping says that the server stops, and why.
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

// tell sends lines. A manager that does not listen any more cannot be told.
func (m Manager) tell(lines ...string) {
	if m.socket == "" {
		return
	}
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(l, "\n", " ")
	}
	// Package net understands a name that begins with "@", which is a socket without a file.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	_, _ = conn.Write([]byte(strings.Join(lines, "\n")))
	_ = conn.Close()
}
