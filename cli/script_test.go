package cli_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hermes-connector/hermes-connector/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"hermes-connector": func() { os.Exit(cli.Main()) },
		"bare-sockets":     func() { bareSockets(false) },
		"naive-sockets":    func() { bareSockets(true) },
	})
}

// TestScripts runs the binary as people do. HOME is an empty folder, and nothing is configured.
func TestScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob(filepath.Join("..", "testdata", "script", "*.txtar"))
	for _, file := range scripts {
		if text, err := os.ReadFile(file); err != nil || regexp.MustCompile(`(?m)^stop\b`).Match(text) {
			t.Errorf("%s: %v, or a stop: it ends the script there, as if all were well; halt ends the server", file, err)
		}
	}
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("..", "testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("RUNTIME_DIRECTORY", filepath.Join(e.WorkDir, "run")) // no server but its own is found
			e.Setenv("GORACE", os.Getenv("GORACE"))
			e.Setenv("TELEGRAM_TEST_API", filepath.Join(os.Getenv(partnersEnv), "telegram-test-api"))
			now := time.Now().UTC()
			e.Setenv("NIGHT", now.Add(-time.Hour).Format("15:04")+"-"+now.Add(12*time.Hour).Format("15:04")) // hours that have begun
			e.Values["server"] = &running{}
			if installed() { // an empty file comes before this machine's own, which no script must reach
				xdg := filepath.Join(e.WorkDir, ".xdg")
				e.Setenv("XDG_CONFIG_HOME", xdg)
				file := filepath.Join(xdg, "hermes-connector", "connector.toml")
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
					return err
				}
			}
			// Whatever the umask: in a folder that is closed to others, files may be open.
			return errors.Join(os.Chmod(e.WorkDir, 0o755), os.Mkdir(e.Getenv("HOME"), 0o700))
		},
		Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "serve": serve, "halt": halt, "await": await,
			"say": say, "backlog": backlog, "gateway": gateway, "freeport": freeport,
			"spoil": spoil, "hook": hook, "receiver": receiver, "interaction": interaction,
			"redeem": redeem, "missealed": missealed, "certificate": certificate, "telegram": telegram,
			"give": give, "connected": connected,
		},
	})
}

// spoil FILE TEXT flips a bit in every copy of TEXT in FILE.
func spoil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: spoil FILE TEXT")
	}
	content, text := []byte(ts.ReadFile(args[0])), []byte(args[1])
	other := append([]byte{text[0] ^ 1}, text[1:]...)
	if !bytes.Contains(content, text) {
		ts.Fatalf("%s does not contain %q", args[0], text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.ReplaceAll(content, text, other), 0o600))
}

// give FILE... gives files to the user 65534, as only root can.
func give(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: give FILE...")
	}
	for _, name := range args {
		ts.Check(os.Lchown(ts.MkAbs(name), 65534, 65534))
	}
}

// exits CODE COMMAND [ARG]... runs a command that must exit with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("exits %s: %v", args[0], err)
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s exits with %d, want %d", args[1], got, want)
	}
}
