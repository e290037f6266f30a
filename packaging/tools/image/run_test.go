package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// inside is a command of the image, in its root folder and as its user.
func inside(t *testing.T, image string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/usr/bin/hermes-connector", args...)
	c.Dir, c.Env = "/", append(slices.Clone(settings.Env), "HERMES_CONNECTOR_LISTEN=127.0.0.1:0")
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	return c
}

// lives starts the server as the image does, asks its health, and stops it.
func lives(t *testing.T, image string) {
	t.Helper()
	for _, dir := range []string{image, filepath.Dir(image), filepath.Dir(filepath.Dir(image))} { // the user must get there
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	server := inside(t, image, "serve")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	server.Stderr = t.Output()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "listening on http://127.0.0.1:") {
		t.Errorf("the server says %q, %v", line, err)
	}
	for _, args := range [][]string{{"healthcheck"}, {"enroll", "home"}, {"status"}, {"check"}, {"demo", "--once"}} {
		if said, err := inside(t, image, args...).CombinedOutput(); err != nil {
			t.Errorf("%q: %v\n%s", args, err, said)
		}
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("the server ends with %v", err)
	}
	said, _ := inside(t, image, "doctor", "--offline").CombinedOutput() // not content: the server is stopped
	if !strings.Contains(string(said), "HC502") || strings.Contains(string(said), "connector.db") {
		t.Errorf("doctor, with the server stopped:\n%s", said)
	}
}
