package handler

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// searchPath is where programs are looked up, inside and outside of a cage.
	searchPath = "/usr/local/bin:/usr/bin:/bin"
	// inThread is the thread's folder as a caged program sees it.
	inThread = "/thread"
)

const (
	// infoFile is the descriptor to which bwrap writes the id of the cage's first process. Bwrap closes it before the
	// program starts.
	infoFile = 3
	// guardFile is the read end of a pipe whose write end only the runner has, so that it is closed when the runner
	// dies.
	guardFile = 4
)

// guarded is the beginning of a command line. It starts the rest of the line, and a second process, which kills the
// process group of both when the runner has died: bwrap dies with its parent, but if that happens while bwrap makes a
// cage, a process of the group is left that waits for ever. env -i removes the variables that the shell itself sets.
var guarded = []string{
	"/bin/sh", "-c", fmt.Sprintf(`{ read -r _; kill -9 0; } <&%d %d>&- >/dev/null 2>&1 & exec /usr/bin/env -i "$@" %[1]d<&-`, guardFile, infoFile), "sh",
}

// The limits of a run. Its processor time is bounded, too, by Handler.Timeout.
const (
	maxMemory    = 512 << 20 // bytes of address space of one process
	maxProcesses = 64
	maxFileSize  = 64 << 20 // bytes
	maxTmp       = 64 << 20 // bytes of all files in /tmp
	maxShared    = 16 << 20 // bytes of all files in /dev/shm
)

// Tools are the paths of the programs, not ours, with which a handler is run.
type Tools struct {
	bwrap, prlimit string
}

// FindTools finds and tries the programs that are needed to run the handlers of c. The error says what to install or to
// change.
func FindTools(ctx context.Context, c *Config) (Tools, error) {
	var t Tools
	var err error
	if t.prlimit, err = exec.LookPath("prlimit"); err != nil {
		return t, errors.New("there is no prlimit, which limits what a handler uses: install util-linux")
	}
	if !slices.ContainsFunc(c.Handlers, func(h *Handler) bool { return !h.Uncaged }) {
		return t, nil
	}
	if os.Geteuid() == 0 {
		return t, errors.New("the limit on processes does not bind root, so handlers do not run as root: " +
			"run this as another user, as the service hermes-connector-handle does")
	}
	if t.bwrap, err = exec.LookPath("bwrap"); err != nil {
		return t, errors.New("there is no bwrap, which makes the cage that handlers run in: install the package bubblewrap")
	}
	said, err := exec.CommandContext(ctx, t.bwrap, "--version").Output()
	if err != nil || !recent(string(said)) {
		return t, fmt.Errorf("%s is %s, and handlers need bubblewrap 0.8 or newer", t.bwrap, cmp.Or(strings.TrimSpace(string(said)), "broken"))
	}
	dir, err := os.MkdirTemp("", "hermes-connector-handle-")
	if err != nil {
		return t, err
	}
	defer func() { _ = os.Remove(dir) }()
	try := &Handler{Run: []string{"/usr/bin/true"}, Timeout: defaultTimeout}
	if ran := t.run(ctx, try, "", dir, nil); ran.cause != "" {
		return t, fmt.Errorf("this kernel, or the container around it, refuses the cage that handlers run in (%s): it must allow user namespaces without privileges; %s",
			ran.said, `"hermes-connector help handle" says what to change`)
	}
	return t, nil
}

var versionForm = regexp.MustCompile(`^bubblewrap (\d+)\.(\d+)`)

// recent reports whether this version of bwrap has everything that a cage needs.
func recent(said string) bool {
	m := versionForm.FindStringSubmatch(said)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1]) // digits
	minor, _ := strconv.Atoi(m[2])
	return major > 0 || minor >= 8
}

// environment returns all that a run of h learns beside its payload.
func (h *Handler) environment(thread string) []string {
	env := []string{"PATH=" + searchPath, "LANG=C.UTF-8", "HANDLER_THREAD_ID=" + thread}
	if h.Agent {
		env = append(env, "HANDLER_OWN_NAME="+h.Name)
	}
	return env
}

// command returns the command line and the environment that run h in its thread, whose folder is dir. Bwrap itself gets
// an empty environment, because the caged program can read it.
func (t Tools) command(h *Handler, thread, dir string) (argv, env []string) {
	limits := []string{
		t.prlimit, fmt.Sprintf("--cpu=%d", int(math.Ceil(h.Timeout.Seconds()))), fmt.Sprintf("--as=%d", maxMemory), fmt.Sprintf("--fsize=%d", maxFileSize), "--core=0",
	}
	if h.Uncaged { // no limit on processes: it would count all processes of this user
		return slices.Concat(limits, []string{"--"}, h.Run), h.environment(thread)
	}
	argv = append(slices.Clone(guarded),
		t.bwrap, "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup",
		"--new-session", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "handler", "--info-fd", strconv.Itoa(infoFile),
	)
	if !h.Network {
		argv = append(argv, "--unshare-net")
	}
	argv = append(argv, system()...)
	argv = append(argv, "--proc", "/proc", "--dev", "/dev", "--size", strconv.Itoa(maxShared), "--tmpfs", "/dev/shm", "--remount-ro", "/dev",
		"--size", strconv.Itoa(maxTmp), "--tmpfs", "/tmp")
	if h.Network {
		for _, f := range resolver {
			argv = append(argv, "--ro-bind-try", f, f)
		}
	}
	for _, v := range h.views() {
		argv = append(argv, v.how, v.path, v.path)
	}
	argv = append(argv, "--bind", dir, inThread, "--remount-ro", "/", "--chdir", inThread)
	for _, e := range h.environment(thread) {
		name, value, _ := strings.Cut(e, "=")
		argv = append(argv, "--setenv", name, value)
	}
	argv = append(argv, "--")
	argv = append(argv, limits...)
	argv = append(argv, fmt.Sprintf("--nproc=%d", maxProcesses), "--")
	return append(argv, h.Run...), []string{}
}

// resolver lists the files by which name servers, certificates and host names are found.
var resolver = []string{
	"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates",
}

// systemFolders are the folders of the machine's programs and libraries, beside /usr.
var systemFolders = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// system returns bwrap's arguments that show the machine's programs and libraries at the paths that they have outside.
func system() []string {
	args := []string{"--ro-bind", "/usr", "/usr"}
	for _, dir := range systemFolders {
		if to, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", to, dir)
		} else {
			args = append(args, "--ro-bind-try", dir, dir)
		}
	}
	// The files name the awk, the libraries and the time zone in use.
	for _, f := range []string{"/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"} {
		args = append(args, "--ro-bind-try", f, f)
	}
	return args
}

// view is a path that a cage shows; how is bwrap's option for it.
type view struct{ how, path string }

// views returns the paths that the cage of h shows, the outer before the inner.
func (h *Handler) views() (all []view) {
	for _, p := range h.Read {
		all = append(all, view{"--ro-bind", p})
	}
	for _, p := range h.Write {
		all = append(all, view{"--bind", p})
	}
	if program := h.Run[0]; !under(program, append(systemFolders, "/usr")...) {
		all = append(all, view{"--ro-bind", program})
	}
	slices.SortStableFunc(all, func(a, b view) int { return cmp.Compare(a.path, b.path) })
	return all
}

// sound returns an error if the cage must not show a path of h any more: somebody may have put a link there since the
// start.
func (c *Config) sound(h *Handler) error {
	for _, p := range slices.Concat(h.Read, h.Write) {
		real := resolved(p)
		for _, g := range c.Guarded {
			if under(real, g) || under(g, real) {
				return fmt.Errorf("%s leads to %s now, which no handler may see", p, g)
			}
		}
	}
	return nil
}

// ran is the result of a run.
type ran struct {
	output []byte
	cause  string // why the output is dropped, for the operator; empty: it counts
	killed bool   // the program was ended by a signal, or took too long
	said   string // the end of what the program wrote to stderr
}

// run runs h in its thread, whose folder is dir, and waits until all its processes have ended.
func (t Tools) run(ctx context.Context, h *Handler, thread, dir string, stdin []byte) ran {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	argv, env := t.command(h, thread, dir)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, said := &capped{most: maxOutput, full: cancel}, &capped{most: maxSaid}
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, "/", bytes.NewReader(stdin), out, said
	if h.Uncaged {
		cmd.Dir = dir
	}
	err := whole(cmd, !h.Uncaged)
	r := ran{output: out.kept, said: strings.TrimSpace(string(said.kept))}
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case out.over:
		r.cause = fmt.Sprintf("more than %d bytes of output", maxOutput)
	case ctx.Err() != nil:
		r.cause, r.killed = "it took longer than "+h.Timeout.String(), true
		if context.Cause(ctx) != context.DeadlineExceeded {
			r.cause = "the runner stops"
		}
	case exited && (exit.ExitCode() < 0 || exit.ExitCode() > signalled && exit.ExitCode() <= signalled+maxSignal):
		r.cause, r.killed = "it was killed: "+exit.String(), true
	case err != nil:
		r.cause = err.Error()
	}
	return r
}

// If signal n ended the program, bwrap, like a shell, ends with the exit status signalled+n. A status above
// signalled+maxSignal is the program's own, such as 255 of ssh.
const signalled, maxSignal = 128, 64

// maxSaid is how many bytes of a run's stderr are kept.
const maxSaid = 2 << 10

// capped keeps the first bytes that are written to it. It does not embed a bytes.Buffer, because io.Copy would fill
// that by its ReadFrom, without Write and so without the limit.
type capped struct {
	kept []byte
	most int
	over bool
	full func() // called once, when there is more than most bytes; nil: nothing is called
}

func (c *capped) Write(p []byte) (int, error) {
	room := min(len(p), c.most-len(c.kept))
	c.kept = append(c.kept, p[:room]...)
	if room < len(p) && !c.over {
		c.over = true
		if c.full != nil {
			c.full()
		}
	}
	return len(p), nil
}
