package browsertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// program is the program with a folder of its own, as somebody runs it who has nothing else.
type program struct {
	t   *testing.T
	dir string

	cmd  *exec.Cmd
	errs *lines
	door string // http://host:port of gateways
	site string // of the pages
}

// lines collects what a process writes, and tells when there is more.
type lines struct {
	mu   sync.Mutex // guards the fields below
	buf  bytes.Buffer
	more chan struct{} // closed and replaced with every write
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// await waits for a match of what is written, and returns its first group.
func (l *lines) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		l.mu.Lock()
		m, more := re.FindStringSubmatch(l.buf.String()), l.more
		l.mu.Unlock()
		if m != nil {
			return m[1]
		}
		select {
		case <-more:
		case <-t.Context().Done():
			t.Fatalf("%q was not written: %s", pattern, l)
		}
	}
}

// serve starts a server with the configuration, beside the listeners, and waits for its pages.
func serve(t *testing.T, configuration string) *program {
	t.Helper()
	inBrowser(t)
	p := &program{t: t, dir: t.TempDir()}
	text := fmt.Sprintf("listen = %q\ndata_dir = \"data\"\n%s\n[web]\nlisten = %q\n", address(t), configuration, address(t))
	if err := os.WriteFile(filepath.Join(p.dir, "connector.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	t.Cleanup(p.stop)
	return p
}

// address is one that the program's servers, one after the other, may listen on, and nobody else.
func address(t *testing.T) string {
	t.Helper()
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// start starts the server, or the next one.
func (p *program) start() {
	p.t.Helper()
	out := &lines{more: make(chan struct{})}
	p.errs = &lines{more: make(chan struct{})}
	p.cmd = p.command("serve")
	p.cmd.Stdout, p.cmd.Stderr = out, p.errs
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.door = out.await(p.t, `listening on (http://\S+)`)
	p.site = p.errs.await(p.t, `url=(http://\S+) login=`)
}

// stop ends the server, and reports what is no clean end.
func (p *program) stop() {
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the server ended with %v: %s", err, p.errs)
	}
	p.cmd = nil
	if strings.Contains(p.errs.String(), "panic") {
		p.t.Errorf("the server's log: %s", p.errs)
	}
}

// command is the program, with arguments.
func (p *program) command(args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Dir = p.dir
	cmd.Env = []string{asProgram + "=1", "HOME=" + p.dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + p.dir, "RUNTIME_DIRECTORY=" + p.dir}
	return cmd
}

// run runs a command and returns what it prints.
func (p *program) run(args ...string) string {
	p.t.Helper()
	out, err := p.command(args...).Output()
	if err != nil {
		var trouble []byte
		if e, ok := err.(*exec.ExitError); ok {
			trouble = e.Stderr
		}
		p.t.Fatalf("hermes-connector %s: %v: %s", strings.Join(args, " "), err, trouble)
	}
	return string(out)
}

// enroll makes a gateway.
func (p *program) enroll(name string) (e manage.Enrolled) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.run("enroll", name, "--json")), &e); err != nil {
		p.t.Fatal(err)
	}
	return e
}

// link is a link to the pages, for one login.
func (p *program) link() string {
	p.t.Helper()
	found := regexp.MustCompile(`http://\S+/login\?code=\w+`).FindString(p.run("web"))
	if found == "" {
		p.t.Fatal("web prints no link")
	}
	return found
}

// login is a tab in which somebody is logged in.
func (p *program) login() *tab {
	p.t.Helper()
	b := newTab(p.t)
	b.do("follow the link", chromedp.Navigate(p.link()))
	b.await("the status page is shown", fmt.Sprintf("location.href === %q", p.site+"/"))
	return b
}
