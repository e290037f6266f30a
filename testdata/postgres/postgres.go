// Package postgres runs servers of Debian's PostgreSQL for tests: each on a port of its own, in a folder of its own, and as a
// user that is not root. A server may have a standby, which is made of it and can take its place.
package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// Server is one. Its methods fail the test when something goes wrong.
type Server struct {
	Port int // of 127.0.0.1

	t        testing.TB
	bin, dir string
	as       *syscall.SysProcAttr
	settings string
	faketime string // the library that gives it a clock of its own; empty: it has the machine's
}

// Start makes a server and starts it; settings are lines of its configuration. The test is skipped in the quick form, and
// where there is no PostgreSQL.
func Start(t testing.TB, settings string) *Server {
	t.Helper()
	return start(t, settings, "")
}

// StartClocked is Start of a server with a clock of its own, which can be set; so have its copies. ok is false where there is no
// library for that, and the clock is the machine's.
func StartClocked(t testing.TB, settings string) (s *Server, ok bool) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(found) == 0 {
		t.Log("no clock is set: apt-get install libfaketime")
		return start(t, settings, ""), false
	}
	return start(t, settings, found[0]), true
}

func start(t testing.TB, settings, faketime string) *Server {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if !long.Pick(false, true) || len(found) == 0 {
		t.Skip("it wants go test -tags long, and a PostgreSQL: apt-get install postgresql")
	}
	s := made(t, Server{bin: filepath.Dir(found[len(found)-1]), settings: settings, faketime: faketime})
	s.run("initdb", "-D", s.data(), "-A", "trust", "-U", "postgres", "--no-sync")
	s.write("postgresql.conf", "include 'test.conf'\n", os.O_APPEND)
	s.configure("")
	s.Start()
	return s
}

// made makes a server's folder, and finds it a port. like has the rest.
func made(t testing.TB, like Server) *Server {
	t.Helper()
	s := &Server{t: t, bin: like.bin, settings: like.settings, faketime: like.faketime}
	dir, err := os.MkdirTemp("", "hermes-connector-postgres-") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	s.dir = dir
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Getuid() == 0 { // which PostgreSQL refuses
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("it wants the user postgres, which Debian's package makes")
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	s.SetClock(0)
	port, release, err := platformtest.HoldPort() // nobody else is given it while it restarts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	s.Port = port
	t.Cleanup(func() { _ = s.command("pg_ctl", "-D", s.data(), "-m", "immediate", "-w", "stop").Run() })
	return s
}

// Standby makes a standby of s, which follows it through the port via, and is not waited for: see Await.
func (s *Server) Standby(via int) *Server {
	s.t.Helper()
	b := made(s.t, *s)
	b.Copies(s, via)
	return b
}

// Copy makes a copy of s as it is now. It is not started, and follows no server.
func (s *Server) Copy() *Server {
	s.t.Helper()
	c := made(s.t, *s)
	c.takes(s)
	c.configure("")
	return c
}

// takes replaces the data of b by what s has now.
func (b *Server) takes(s *Server) {
	b.t.Helper()
	if err := os.RemoveAll(b.data()); err != nil {
		b.t.Fatal(err)
	}
	b.run("pg_basebackup", "-D", b.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(s.Port), "-U", "postgres", "-c", "fast", "--no-sync")
}

// Copies makes the stopped server b a standby of s, as it is now: what b had is gone.
func (b *Server) Copies(s *Server, via int) {
	b.t.Helper()
	b.takes(s)
	b.configure(fmt.Sprintf("primary_conninfo = 'host=127.0.0.1 port=%d user=postgres'", via))
	b.write("standby.signal", "", os.O_CREATE)
	b.Start()
}

// Await makes every commit on s wait for its standby from now on. When it returns, the standby has everything.
func (s *Server) Await() {
	s.t.Helper()
	s.reconfigure("synchronous_standby_names = '*'")
	if !wait.For(func() bool {
		return s.SQL("SELECT current_setting('synchronous_standby_names') || count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "*1\n"
	}) {
		s.t.Fatalf("the standby does not follow:\n%s", s.log())
	}
}

// AwaitNobody lets commits on s no longer wait for its standby, which follows as fast as it can.
func (s *Server) AwaitNobody() {
	s.t.Helper()
	s.reconfigure("")
	if !wait.For(func() bool { return s.SQL("SELECT current_setting('synchronous_standby_names')") == "\n" }) {
		s.t.Fatalf("the standby is waited for:\n%s", s.log())
	}
}

// Promote makes a standby a server that waits for nobody.
func (s *Server) Promote() {
	s.t.Helper()
	s.run("pg_ctl", "-D", s.data(), "-w", "promote")
}

// Start starts a server that was stopped.
func (s *Server) Start() {
	s.t.Helper()
	s.run("pg_ctl", "-D", s.data(), "-l", s.dir+"/log", "-w", "start")
}

// Stop stops a server as a power cut would.
func (s *Server) Stop() {
	s.t.Helper()
	s.run("pg_ctl", "-D", s.data(), "-m", "immediate", "-w", "stop")
}

// SetClock sets the clock of s ahead of the machine's clock by that time, within a second.
func (s *Server) SetClock(ahead time.Duration) {
	s.t.Helper()
	if s.faketime == "" {
		return
	}
	next := s.clock() + ".next" // who reads it finds all of it
	if err := errors.Join(os.WriteFile(next, fmt.Appendf(nil, "%+d\n", int(ahead.Seconds())), 0o644), os.Rename(next, s.clock())); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) clock() string { return s.dir + "/clock" }

// DSN returns the address of s for a client. port is another one if something stands between the client and s.
func (s *Server) DSN(port int) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
}

// SQL runs a statement as the operator, who waits for no standby.
func (s *Server) SQL(statement string) string {
	s.t.Helper()
	cmd := exec.Command("psql", "-X", "-A", "-t", "-d", s.DSN(s.Port), "-c", statement)
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c synchronous_commit=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", statement, err, out)
	}
	return string(out)
}

func (s *Server) data() string { return s.dir + "/data" }

// configure writes all settings; more is a further line.
func (s *Server) configure(more string) {
	s.t.Helper()
	s.write("test.conf", fmt.Sprintf("listen_addresses = '127.0.0.1'\nport = %d\nunix_socket_directories = ''\n%s\n%s\n", s.Port, s.settings, more), os.O_CREATE|os.O_TRUNC)
}

func (s *Server) reconfigure(more string) {
	s.t.Helper()
	s.configure(more)
	s.run("pg_ctl", "-D", s.data(), "reload")
}

// write writes a file of the server, which reads it.
func (s *Server) write(name, text string, how int) {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.data(), name), how|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// log returns the end of the server's log.
func (s *Server) log() string {
	raw, _ := os.ReadFile(s.dir + "/log")
	return string(raw[max(0, len(raw)-4000):])
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.SysProcAttr, cmd.Dir = s.as, s.dir
	if s.faketime != "" {
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+s.faketime, "FAKETIME_TIMESTAMP_FILE="+s.clock(), "FAKETIME_CACHE_DURATION=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1")
	}
	return cmd
}

func (s *Server) run(name string, args ...string) {
	s.t.Helper()
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s\n%s", name, err, out, strings.TrimSpace(s.log()))
	}
}
