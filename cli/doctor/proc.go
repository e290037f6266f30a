package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// process is a running process, with what this user may see of it.
type process struct {
	pid  int
	args []string
	open []string // the paths of its open files
}

func (p process) String() string {
	if len(p.args) == 0 {
		return fmt.Sprintf("process %d", p.pid)
	}
	return fmt.Sprintf("%s (process %d)", filepath.Base(p.args[0]), p.pid)
}

// processes returns the processes whose arguments pick accepts, without this one. proc is the folder /proc.
func processes(proc string, pick func(args []string) bool) (out []process) {
	all, _ := os.ReadDir(proc) // only Linux has it
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		raw, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // empty if the process has just ended
		p := process{pid: pid, args: strings.FieldsFunc(string(raw), func(r rune) bool { return r == 0 })}
		if !pick(p.args) {
			continue
		}
		fds, _ := os.ReadDir(filepath.Join(dir, "fd")) // only root sees those of other users' processes
		for _, fd := range fds {
			if to, err := os.Readlink(filepath.Join(dir, "fd", fd.Name())); err == nil {
				p.open = append(p.open, to)
			}
		}
		out = append(out, p)
	}
	return out
}

// serves reports whether args start a server of this program. The program's file may have been renamed: the name of
// this process's file counts, too.
func serves(args []string) bool {
	if len(args) == 0 || !strings.HasPrefix(filepath.Base(args[0]), "hermes-connector") && filepath.Base(args[0]) != filepath.Base(os.Args[0]) {
		return false
	}
	return slices.Contains(args[1:], "serve")
}

// holder says in words which program listens on a port.
func holder(proc, port string) string {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "another program"
	}
	sockets := make(map[string]bool)
	for _, name := range []string{"tcp", "tcp6"} {
		raw, _ := os.ReadFile(filepath.Join(proc, "net", name)) // if it cannot be read, the program is not found
		for line := range strings.Lines(string(raw)) {
			// number, local address:port, remote, state (0A: listening), queues, timer, retransmits, user, timeout, inode
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	if len(sockets) == 0 {
		return "another program"
	}
	for _, p := range processes(proc, func(args []string) bool { return len(args) > 0 }) {
		if slices.ContainsFunc(p.open, func(path string) bool { return sockets[path] }) {
			return p.String()
		}
	}
	return "a program of another user"
}

// opener names the program that has the file open; empty: not known.
func opener(proc, file string) string {
	for _, p := range processes(proc, func(args []string) bool { return len(args) > 0 }) {
		if slices.Contains(p.open, file) {
			return p.String()
		}
	}
	return ""
}
