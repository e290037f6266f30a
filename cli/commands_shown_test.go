package cli_test

import (
	"bufio"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// shown are the commands of ours in the code blocks of the README and of every topic, each once, by where it stands first.
func shown(t *testing.T) (commands, places []string) {
	t.Helper()
	texts := map[string]string{}
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	texts["README.md"] = string(readme)
	maps.Copy(texts, topicFiles(t))
	names := []string{}
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fenced := false
		for line := range strings.SplitSeq(texts[name], "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			command := strings.TrimPrefix(strings.TrimSpace(line), "$ ")
			command, _, _ = strings.Cut(strings.TrimPrefix(command, "sudo "), "  #")
			if !strings.HasPrefix(command, "hermes-connector ") || !fenced && !strings.HasPrefix(line, "    ") || slices.Contains(commands, command) {
				continue
			}
			commands, places = append(commands, command), append(places, name)
		}
	}
	return commands, places
}

// What a command that is shown needs beyond the world of newShownWorld, by how it begins; the longest beginning counts.
var (
	// before are what is run first.
	before = map[string][]string{
		"hermes-connector enroll home":                          {"hermes-connector gateway revoke home --yes"},
		"hermes-connector gateway identity home --revoke":       {"hermes-connector gateway identity home"},
		"hermes-connector link tools":                           {"hermes-connector enroll tools"},
		"hermes-connector restore":                              {"hermes-connector backup connector.backup"},
		"hermes-connector webhook secret doorbell.secret --add": {"hermes-connector webhook secret doorbell.secret"},
	}
	// onServer are asked of a running server.
	onServer = []string{"hermes-connector status", "hermes-connector explain", "hermes-connector web", "hermes-connector reload", "hermes-connector healthcheck", "hermes-connector link", "hermes-connector notify"}
	// ends are those that end otherwise than with 0, and how.
	ends = map[string][]int{
		"hermes-connector setup":                   {2}, // there is no terminal
		"hermes-connector setup --platform":        {1}, // the token is none, or there is no way to the network
		"hermes-connector setup --platform matrix": {2}, // no file has a password
		"hermes-connector setup --service":         {1, 2},
		"hermes-connector doctor":                  {0, 1},
		"hermes-connector handle":                  {2}, // nothing is there to be run
		"hermes-connector notify test":             {2}, // nobody is to be told
	}
)

// TestCommandsShown runs every command of ours that the README and the help topics show, each in a world of its own.
func TestCommandsShown(t *testing.T) {
	commands, places := shown(t)
	if len(commands) < 40 {
		t.Fatalf("only %d commands found: the test does not see the pages", len(commands))
	}
	template := newShownWorld(t)
	for n, command := range commands {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
				t.Fatal(err)
			}
			private(t, dir)
			for _, first := range longest(before, command) {
				if out, code := runShown(t, dir, first); code != 0 {
					t.Fatalf("%s exits with %d:\n%s", first, code, out)
				}
			}
			if slices.ContainsFunc(onServer, func(s string) bool { return strings.HasPrefix(command, s) }) {
				defer serveShown(t, dir)()
			}
			if command == "hermes-connector serve" {
				serveShown(t, dir)()
				return
			}
			want := longest(ends, command)
			if want == nil {
				want = []int{0}
			}
			if out, code := runShown(t, dir, command); !slices.Contains(want, code) {
				t.Errorf("%s: %s exits with %d, want %d:\n%s", places[n], command, code, want, out)
			}
		})
	}
}

// longest is the value of the longest beginning of the command.
func longest[V any](of map[string][]V, command string) (value []V) {
	most := 0
	for begin, v := range of {
		if strings.HasPrefix(command, begin) && len(begin) > most {
			most, value = len(begin), v
		}
	}
	return value
}

// newShownWorld is a folder with a configuration and a database as the pages assume: gateways "home" and "kids", and a
// person on Telegram who is bound to "home".
func newShownWorld(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"connector.toml": "data_dir = \"data\"\nlisten = \"127.0.0.1:0\"\n[web]\nlisten = \"127.0.0.1:0\"\n[[bots]]\nplatform = \"loopback\"\ndir = \"loop\"\n",
		"telegram.token": "123456:AAnothing\n", "discord.token": "MTIzNDU2Nzg5.abcdef.ghijklmnopqrstuvwxyz\n", "slack.token": "xoxb-1-2-abc\n", "slack.app": "xapp-1-A0TEST-1-abc\n", "loop/say": "",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	serveShown(t, dir)() // makes the database
	for _, command := range []string{
		"hermes-connector enroll home", "hermes-connector enroll kids --tenant family",
		"hermes-connector link home --user telegram:4242", "hermes-connector link home --user loopback:ann",
	} {
		if out, code := runShown(t, dir, command); code != 0 {
			t.Fatalf("%s exits with %d:\n%s", command, code, out)
		}
	}
	return dir
}

// private keeps others from everything in the folder: a copy has lost its modes.
func private(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return errors.Join(err, os.Chmod(path, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// runShown runs a command line as a person at a shell would, without a terminal.
func runShown(t *testing.T, dir, line string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = dir, shownEnv(dir)
	b, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(b), exit.ExitCode()
	}
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return string(b), 0
}

func shownEnv(dir string) []string {
	// What asks a network finds none: nothing leaves this machine.
	env := []string{"HTTPS_PROXY=http://127.0.0.1:1", "HOME=" + dir, "RUNTIME_DIRECTORY=" + dir, "PATH=" + os.Getenv("PATH")}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "TESTSCRIPT") || name == "GOCOVERDIR" || name == "TMPDIR" {
			env = append(env, kv)
		}
	}
	return env
}

// serveShown starts a server, waits until its bot is connected, and returns what ends it.
func serveShown(t *testing.T, dir string) (end func()) {
	t.Helper()
	cmd := exec.Command("hermes-connector", "serve")
	cmd.Dir, cmd.Env = dir, shownEnv(dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "listening on ") {
	}
	if lines.Err() != nil || !strings.HasPrefix(lines.Text(), "listening on ") {
		_ = cmd.Process.Kill()
		t.Fatalf("the server does not listen: %v, %v", lines.Err(), cmd.Wait())
	}
	var said []byte
	if !wait.For(func() (ok bool) {
		said, ok = connectedIn(dir, cmd.Env, nil)
		return ok
	}) {
		_ = cmd.Process.Kill()
		t.Fatalf("its bot is not connected: %s, %v", said, cmd.Wait())
	}
	return func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("the server ends: %v", err)
		}
	}
}

// TestCommandsNamed: a command that is named in running text, where it may have placeholders, is there with its flags.
func TestCommandsNamed(t *testing.T) {
	texts := []string{}
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	texts = append(texts, string(readme))
	texts = slices.AppendSeq(texts, maps.Values(topicFiles(t)))
	named := make(map[string]bool)
	for _, text := range texts {
		for _, m := range regexp.MustCompile("`hermes-connector ([a-z][^`]*)`").FindAllStringSubmatch(text, -1) {
			named[strings.Join(strings.Fields(m[1]), " ")] = true
		}
	}
	if len(named) < 10 {
		t.Fatalf("only %d found: the test does not see the pages", len(named))
	}
	for command := range named {
		var words, flags []string
		for _, w := range strings.Fields(command) {
			if flag, ok := strings.CutPrefix(w, "--"); ok {
				flag, _, _ = strings.Cut(flag, "=")
				flags = append(flags, flag)
			} else if len(flags) == 0 && strings.ToLower(w) == w {
				words = append(words, w)
			}
		}
		out, err := exec.Command("hermes-connector", append(slices.Clone(words), "--help")...).Output()
		if err != nil || words[0] != "help" && !strings.Contains(string(out), "hermes-connector "+words[0]) {
			t.Errorf("hermes-connector %s: %v", command, err)
		}
		for _, flag := range flags {
			if !strings.Contains(string(out), "--"+flag) {
				t.Errorf("hermes-connector %s has no --%s", strings.Join(words, " "), flag)
			}
		}
	}
}

// topicFiles are the help topics, by the names of their files.
func topicFiles(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	paths, err := filepath.Glob(filepath.Join("help", "*.md"))
	for _, path := range paths {
		text, readErr := os.ReadFile(path)
		err = errors.Join(err, readErr)
		texts[filepath.Base(path)] = string(text)
	}
	if err != nil || len(texts) == 0 {
		t.Fatalf("%d topics, %v", len(texts), err)
	}
	return texts
}
