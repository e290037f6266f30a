package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

// node is one of the machines: whatever ends its server, it is started again.
type node struct {
	*victim // for its command
	name    string
	addr    string
	ways    [2]*way // to each PostgreSQL
	rand    *rand.Rand
	rig     *clusterRig
	disk    *disk // of its database; nil: it is the machine's
	runs    int   // how many processes there were

	mu     sync.Mutex // guards the fields below
	cmd    *exec.Cmd  // nil: it is down
	run    string     // of the process
	killed bool       // the process, by a test
	asked  bool       // the process, to stop
	broken bool       // its disk
	tail   []string   // what it said last
}

// configure writes what the next process reads, and names that process.
func (n *node) configure() (run string, err error) {
	n.runs++
	run = fmt.Sprintf("%s-%d", n.name, n.runs)
	updates := []string{"poll", "webhook"}[n.rand.IntN(2)]
	advertise := []string{"", fmt.Sprintf("advertise = \"http://%s\"\n", n.addr)}[n.rand.IntN(2)]
	text := fmt.Sprintf("listen = %q\npublic_url = %q\ndata_dir = \"data\"\n[vault]\nkey_file = \"../vault.key\"\n[backup]\nnightly = false\n[cluster]\ndsn_file = \"dsn\"\nnode = %q\nlease = %q\n",
		n.addr, n.rig.public, n.name, clusterLease) + advertise +
		fmt.Sprintf("[[bots]]\nplatform = \"telegram\"\ntoken_file = \"token\"\napi_base = \"%s/%s\"\nupdates = %q\n", n.rig.calls.url, run, updates)
	return run, os.WriteFile(filepath.Join(n.dir, "connector.toml"), []byte(text), 0o600)
}

// lives starts the server whenever none runs, until ctx ends; then it is stopped in order.
func (n *node) lives(ctx context.Context) {
	for ctx.Err() == nil {
		n.live(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(n.rand.IntN(1500)) * time.Millisecond):
		}
	}
}

// live is the life of one process.
func (n *node) live(ctx context.Context) {
	run, err := n.configure()
	if err != nil {
		n.t.Error(err)
		return
	}
	cmd := n.command("serve")
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		n.t.Error(err)
		return
	}
	n.mu.Lock()
	n.cmd, n.run, n.killed, n.asked, n.broken, n.tail = cmd, run, false, false, false, nil
	n.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { n.signal(syscall.SIGTERM) })
	n.reads(said, run)
	err = cmd.Wait()
	stop()
	if n.disk != nil {
		n.disk.begins()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cmd = nil
	switch code := cmd.ProcessState.ExitCode(); {
	case n.killed && code < 0, n.asked && code == 0, n.broken && code > 0:
	case code == 3, code == 1 && strings.Contains(strings.Join(n.tail[max(0, len(n.tail)-3):], "\n"), "another node leads now, or may"):
		n.rig.ended()
	default:
		n.t.Errorf("%s ended with %v:\n%s", run, err, strings.Join(n.tail, "\n"))
	}
}

// reads reads what the process says, until it ends.
func (n *node) reads(said io.Reader, run string) {
	kept, err := os.OpenFile(filepath.Join(n.dir, "serve.err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Error(err)
	}
	defer kept.Close()
	_, _ = fmt.Fprintln(kept, time.Now().Format("15:04:05.000"), "===", run)
	for lines := bufio.NewScanner(said); lines.Scan(); {
		line := lines.Text()
		_, _ = fmt.Fprintln(kept, line)
		n.mu.Lock()
		n.tail = append(n.tail[max(0, len(n.tail)-30):], line)
		n.mu.Unlock()
		switch {
		case strings.Contains(line, "this node leads"):
			n.rig.calls.leads(run)
			n.rig.leads(n)
		case strings.Contains(line, "it is set aside, and filled anew"):
			n.rig.setAside.Add(1)
		case strings.Contains(line, "the disk is full"):
			n.rig.noRoom.Add(1)
		}
	}
}

// signal signals n's process, if there is one, and says which.
func (n *node) signal(sig syscall.Signal) (run string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return ""
	}
	n.killed = n.killed || sig == syscall.SIGKILL
	n.asked = n.asked || sig == syscall.SIGTERM
	_ = n.cmd.Process.Signal(sig) // it may have ended
	return n.run
}

// failsToWrite has every write of n's process to a file fail, until the operator mends that, or starts the server again.
func (n *node) failsToWrite() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return
	}
	n.broken = true
	if err := unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Max: unix.RLIM_INFINITY}, nil); err != nil {
		n.t.Error(err)
	}
	if n.rig.rand.IntN(2) == 0 {
		n.restartsLater()
		return
	}
	run := n.run
	n.rig.later(n.rig.long(), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.cmd == nil || n.run != run {
			return
		}
		if err := unix.Prlimit(n.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil); err != nil {
			n.t.Error(err)
		}
	})
}

// restartsLater has an operator end n's process, which is started again, after a while. n.mu is held.
func (n *node) restartsLater() {
	run := n.run
	n.rig.later(n.rig.long(), func() {
		n.mu.Lock()
		same := n.run == run
		n.mu.Unlock()
		if same {
			n.signal(syscall.SIGTERM)
		}
	})
}

// process is the one n has now; empty: it is down.
func (n *node) process() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return ""
	}
	return n.run
}

// stopsDisk has the disk of n's database stop working, until the operator has ended its process.
func (n *node) stopsDisk() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return
	}
	n.broken = true
	n.disk.stops()
	n.restartsLater()
}

func newNode(t *testing.T, rig *clusterRig, i int, dsn string, ways [2]*way) *node {
	t.Helper()
	n := &node{name: fmt.Sprintf("node%d", i), ways: ways, rig: rig, rand: rand.New(rand.NewPCG(rig.seed, uint64(10+i)))}
	n.victim = &victim{t: t, bot: rig.bot, dir: filepath.Join(rig.dir, n.name), url: strings.Replace(rig.public, "http", "ws", 1) + "/relay"}
	port, release, err := platformtest.HoldPort() // the same over all restarts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	n.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	err = os.Mkdir(n.dir, 0o700)
	for name, text := range map[string]string{"token": botToken, "dsn": dsn} {
		if err == nil {
			err = os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	n.disk = newDisk(t, n.dir)
	return n
}
