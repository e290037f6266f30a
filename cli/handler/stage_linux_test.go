package handler

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inOwnProcess runs the test in a process of its own and reports what that said: there it returns false. What no run may show
// is in that process's environment, and in the keyring of its session.
func inOwnProcess(t *testing.T) (done bool) {
	t.Helper()
	if os.Getenv(canaryName) != "" {
		return false
	}
	runtime.LockOSThread() // the keyring is this thread's, and its children's
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), canaryName+"="+canary("environment"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if _, err := unix.KeyctlJoinSessionKeyring("handler-test"); err == nil {
		_, _ = unix.AddKey("user", "runner-canary", []byte(canary("keyring")), unix.KEY_SPEC_SESSION_KEYRING)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in a process of its own: %v\n%s", err, out)
	}
	return true
}

const canaryName = "HANDLER_TEST_CANARY"

// canary is what nothing of may be in an output. It says where it was.
func canary(where string) string {
	raw := make([]byte, 4)
	_, _ = rand.Read(raw) // never fails
	return "canary-" + where + "-" + hex.EncodeToString(raw)
}

var canaryForm = regexp.MustCompile(`canary-[a-z]+-[0-9a-f]{8}|WON.*`)

// stage is a runner's surroundings, with canaries in all that handlers may not see.
type stage struct {
	t      *testing.T
	dir    string
	tools  Tools
	state  *State
	args   []string // of the programs: where all that is
	shelf  string   // a file that another handler reads
	pipe   int      // whoever holds the other end is left over
	memory []byte
	pid    int                    // of a neighbour
	died   chan struct{}          // closed when it has
	heard  map[string]chan string // by network: what came
	udp    net.PacketConn
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir(), memory: []byte(canary("memory")), died: make(chan struct{}), heard: make(map[string]chan string)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(path, where string) string {
		t.Helper()
		path = filepath.Join(s.dir, path)
		must(os.MkdirAll(filepath.Dir(path), 0o700))
		must(os.WriteFile(path, []byte(canary(where)+"\n"), 0o600))
		return path
	}
	set := func(name, value string) { s.args = append(s.args, name+"="+value) }
	var err error
	s.state, err = OpenState(filepath.Join(s.dir, "state"))
	must(err)
	set("state", filepath.Join(s.dir, "state"))
	put("state/journal", "journal")
	set("other", filepath.Dir(put("state/threads/0000/secret", "thread")))
	set("cred", put("cred.env", "credential"))
	set("toml", put("handlers.toml", "toml"))
	s.shelf = put("shelf/secret", "shelf")
	set("shelf", filepath.Dir(s.shelf))
	set("home", filepath.Dir(put("home/secret", "home")))
	outside := func(dir, where string) string {
		f, err := os.CreateTemp(dir, "handler-test-")
		must(err)
		t.Cleanup(func() { _ = os.Remove(f.Name()) })
		_, err = f.WriteString(canary(where) + "\n")
		must(errors.Join(err, f.Close()))
		return f.Name()
	}
	set("tmp", outside("/tmp", "tmp"))
	set("shm", outside("/dev/shm", "shm"))
	open, err := os.Open(put("open", "descriptor"))
	must(err)
	t.Cleanup(func() { _ = open.Close() })

	neighbour := exec.Command("/bin/sh", "-c", "sleep 600; :", canary("line"))
	neighbour.Env = []string{"SECRET=" + canary("neighbour")}
	neighbour.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it must not die with the thread that starts it
	must(neighbour.Start())
	s.pid = neighbour.Process.Pid
	go func() {
		defer close(s.died)
		_ = neighbour.Wait()
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-s.pid, syscall.SIGKILL)
		<-s.died
	})
	set("pid", fmt.Sprint(s.pid))
	set("runner", fmt.Sprint(os.Getpid()))

	s.listen("tcp", "127.0.0.1:0", "port")
	s.listen("tcp6", "[::1]:0", "port6")
	set("abstract", strings.TrimPrefix(s.listen("unix", "@handler-test-"+rand.Text(), ""), "@"))
	set("sock", s.listen("unix", filepath.Join(s.dir, "s"), ""))
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(err)
	s.udp = udp
	t.Cleanup(func() { _ = udp.Close() })
	set("udp", udp.LocalAddr().String()[len("127.0.0.1:"):])
	s.heard["udp"] = make(chan string, 100)
	go func() {
		b := make([]byte, 100)
		for {
			n, _, err := udp.ReadFrom(b)
			if err != nil {
				return
			}
			s.heard["udp"] <- string(b[:n])
		}
	}()
	pipe := filepath.Join(s.dir, "pipes", "pipe")
	must(os.Mkdir(filepath.Dir(pipe), 0o700))
	must(unix.Mkfifo(pipe, 0o600))
	s.pipe, err = unix.Open(pipe, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must(err)
	t.Cleanup(func() { _ = unix.Close(s.pipe) })
	set("pipe", pipe)
	set("mark", "handler-test-mark")
	return s
}

// listen listens on a network, and notes who connects. Where there is none such, the address is empty.
func (s *stage) listen(network, address, name string) string {
	l, err := net.Listen(network, address)
	if err != nil {
		return ""
	}
	s.t.Cleanup(func() { _ = l.Close() })
	heard := make(chan string, 100)
	s.heard[network+" "+l.Addr().String()] = heard
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
			heard <- "a connection"
		}
	}()
	if name != "" {
		_, port, _ := net.SplitHostPort(l.Addr().String())
		s.args = append(s.args, name+"="+port)
	}
	return l.Addr().String()
}

// write makes a program of a script.
func (s *stage) write(name, script string) string {
	head := shellHead
	if rest, perl := strings.CutPrefix(script, "perl:"); perl {
		head, script = perlHead, rest
	}
	path := filepath.Join(s.dir, "programs", strings.ReplaceAll(name, " ", "-"))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(head+script+"\n"), 0o700)); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// handler is what runs a script. It sees the folder of the pipe.
func (s *stage) handler(name, script string) *Handler {
	return &Handler{
		Name: "attack", Run: append([]string{s.write(name, script)}, s.args...), Timeout: maxTimeout, Write: []string{filepath.Join(s.dir, "pipes")},
	}
}

// run runs a handler in a thread of its own, and says what it got that it should not: the empty string is nothing.
func (s *stage) run(h *Handler) (loot string, r ran) {
	s.t.Helper()
	thread := s.state.threadID(h, s.t.Name()+h.Run[0])
	dir, err := s.state.folder(thread)
	if err != nil {
		s.t.Fatal(err)
	}
	r = s.tools.run(s.t.Context(), h, thread, dir, nil)
	var all []string
	if out := string(r.output) + "\n" + r.said; len(out) > maxOutput+maxSaid+1 {
		all = append(all, fmt.Sprintf("it put out %d bytes", len(out)))
	} else {
		all = canaryForm.FindAllString(out, -1)
	}
	if _, err := s.udp.WriteTo([]byte("the end"), s.udp.LocalAddr()); err != nil { // all that came before it is heard
		s.t.Fatal(err)
	}
	for what := ""; what != "the end"; {
		if what = <-s.heard["udp"]; what != "the end" {
			all = append(all, "udp: "+what)
		}
	}
	for network, heard := range s.heard {
		select {
		case what := <-heard:
			all = append(all, network+": "+what)
		default:
		}
	}
	if raw, err := os.ReadFile(s.shelf); err != nil || !bytes.HasPrefix(raw, []byte("canary-shelf-")) {
		all = append(all, fmt.Sprintf("the shelf has %q, %v", raw, err))
	}
	select {
	case <-s.died:
		all = append(all, "the neighbour is dead")
	default:
	}
	if n, err := unix.Read(s.pipe, make([]byte, 1)); n != 0 || err != nil { // at its end nobody holds the other end
		all = append(all, fmt.Sprintf("something of it is left: %v", err))
	}
	return strings.Join(all, "\n"), r
}
