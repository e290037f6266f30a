package handler

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// nobody is who the tests run as when root runs them: handlers do not run as root.
const nobody = 65534

// asRunner makes the test binary a runner of TestKill's.
const asRunner = "HANDLER_TEST_RUNNER"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asRunner) != "":
		os.Exit(runForKill())
	case os.Geteuid() != 0, slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.fuzz") }):
		os.Exit(m.Run())
	}
	// The binary, and what go test wants to know of the files that are read, may be in a folder that only root can enter.
	args := slices.DeleteFunc(os.Args[1:], func(arg string) bool { return strings.HasPrefix(arg, "-test.testlogfile") })
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, append(os.Environ(), "HOME=/nonexistent")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// folder is a temporary folder in which text stands in files; those that begin with #! are programs.
func folder(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		mode := os.FileMode(0o600)
		if strings.HasPrefix(text, "#!") {
			mode = 0o700
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// engine is an engine for the handlers.toml among the texts, and the folder that holds them.
func engine(t *testing.T, texts map[string]string) (*Engine, string) {
	t.Helper()
	dir := folder(t, texts)
	state := filepath.Join(t.TempDir(), "state")
	c, err := Load(filepath.Join(dir, "handlers.toml"), state)
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{Config: c, Log: slog.New(slog.DiscardHandler)}
	if e.State, err = OpenState(state); err != nil {
		t.Fatal(err)
	}
	if e.Tools, err = FindTools(t.Context(), c); err != nil {
		t.Skipf("no cage can be tried here: %v", err)
	}
	return e, dir
}

// ask is what a person reads for what they say.
func ask(t *testing.T, e *Engine, conversation, text string) string {
	t.Helper()
	run, instead := e.prepare(message{conversation: conversation, text: text})
	if run != nil {
		instead = run(t.Context())
	}
	return strings.Join(instead, "|")
}
