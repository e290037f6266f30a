package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-connector/hermes-connector/cli/echo"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
)

// terminal is one at which a person sits: what it shows, and what they type.
type terminal struct {
	*os.File

	mu    sync.Mutex // guards the fields below
	shown string
	read  int // so much of it
	grew  chan struct{}
}

// sit starts the program at a new terminal.
func sit(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(int(side.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(side.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = other, other, other
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = other.Close()
	s := &terminal{File: side, grew: make(chan struct{})}
	go func() { // ends with the terminal
		buf := make([]byte, 4096)
		for {
			n, err := side.Read(buf)
			s.mu.Lock()
			s.shown += strings.ReplaceAll(string(buf[:n]), "\r\n", "\n")
			close(s.grew)
			s.grew = make(chan struct{})
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
		_ = side.Close()
	})
	return s
}

// sees waits until the terminal shows what matches, below all that was seen before, and returns the groups.
func (s *terminal) sees(t *testing.T, re string) []string {
	t.Helper()
	end := time.After(patience)
	for {
		s.mu.Lock()
		found := regexp.MustCompile(re).FindStringSubmatchIndex(s.shown[s.read:])
		text, grew := s.shown[s.read:], s.grew
		if found != nil {
			s.read += found[1]
		}
		s.mu.Unlock()
		if found != nil {
			return regexp.MustCompile(re).FindStringSubmatch(text)
		}
		select {
		case <-grew:
		case <-end:
			t.Fatalf("the terminal does not show %s:\n%s", re, text)
		}
	}
}

func (s *terminal) types(t *testing.T, text string) {
	t.Helper()
	if _, err := s.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func (s *terminal) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

// TestSetupAtATerminal goes from nothing to the first answered message with one command and an interruption, and
// edits no file.
func TestSetupAtATerminal(t *testing.T) {
	t.Parallel()
	api := newSetupAPI("pibot")
	t.Cleanup(api.Close)
	home := t.TempDir()
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	env := filepath.Join(home, "gateway.env")
	if err := os.WriteFile(env, []byte("OTHER=1\nGATEWAY_RELAY_ID=former"), 0o644); err != nil {
		t.Fatal(err)
	}
	setup := func() *terminal {
		cmd := exec.Command("hermes-connector", "setup", "--config", filepath.Join(home, "connector.toml"), "--api-base", api.URL)
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}, "HOME="+home, "RUNTIME_DIRECTORY="+home+"/run", "XDG_CONFIG_HOME=", "XDG_DATA_HOME=", "TERM=dumb", fmt.Sprintf("HERMES_CONNECTOR_LISTEN=127.0.0.1:%d", port), "HERMES_CONNECTOR_WEB_LISTEN=127.0.0.1:0")
		cmd.Dir = home
		return sit(t, cmd)
	}
	ask := setup()
	ask.sees(t, `Which chat network[^>]*> `)
	ask.types(t, "Done! It is 10:30.\nUse this token:\n"+setupToken+"\nKeep it secure.\n") // at a menu
	ask.sees(t, `knows the bot as @pibot(?s:.*)Where do your gateways run\?[^>]*> `)
	ask.types(t, setupToken+"\n")
	ask.sees(t, `type 1, 2 or 3[^>]*> `)
	ask.types(t, "here\n")
	ask.sees(t, `here\n(?s:.*)What may open them\?[^>]*> `)
	ask.types(t, "back\n")
	ask.sees(t, `Where do your gateways run\?[^>]*> `)
	if made, _ := filepath.Glob(filepath.Join(home, "*")); len(made) != 1 { // the gateway's .env, which was there
		t.Errorf("before anything was agreed to there is %q", made)
	}
	ask.types(t, "\x03") // interrupted
	ask.sees(t, `setup continues where it left off`)
	if strings.Contains(ask.all(), setupToken[8:]) {
		t.Error("the token is shown")
	}

	again := setup()
	again.sees(t, `Which chat network[^>]*> `)
	for _, answer := range []string{setupToken, "", "", "1", "", env} {
		again.types(t, answer+"\n")
		again.sees(t, `\(or type back\) [^>]*> $`)
	}
	again.types(t, "yes\n")
	again.sees(t, `connector.toml is written(?s:.*)the server runs(?s:.*)Waiting for home to connect`)
	if strings.Contains(again.all(), setupToken[8:]) {
		t.Error("the token is shown")
	}

	lines, err := os.ReadFile(env)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(env); err != nil || st.Mode().Perm() != 0o600 || !strings.HasPrefix(string(lines), "OTHER=1\nGATEWAY_RELAY_ID=home\n") {
		t.Errorf("the .env file, %v:\n%s", st.Mode(), lines)
	}
	secret := regexp.MustCompile(`(?m)^GATEWAY_RELAY_SECRET=(\S+)$`).FindSubmatch(lines)
	ctx, cancel := context.WithCancel(t.Context())
	dialled := make(chan error, 1)
	g := &echo.Gateway{}
	g.URL, g.ID, g.Secret = fmt.Sprintf("ws://127.0.0.1:%d/relay", port), "home", relay.NewSecret(secret[1])
	g.Identities = []relay.Bot{{Platform: "telegram", ID: "123456"}}
	go func() { dialled <- g.Run(ctx) }()
	defer func() { cancel(); <-dialled }()

	again.sees(t, `home is connected`)
	again.sees(t, `https://t.me/pibot\?start=`) // above the code: the code is what stays on a small screen
	code := again.sees(t, `/link (\S+)\n`)
	api.say("/link " + code[1])
	again.sees(t, fmt.Sprintf(`✓ Ann \(telegram:%d\) is linked to home(?s:.*)  http://[^ ]*/login\?code=(?s:.*)The server runs in this window`, setupUser))
	api.say("hello")
	if !api.answered("echo: hello") {
		t.Fatalf("the first message was not answered:\n%s", again.all())
	}
	again.types(t, "\x03")
	again.sees(t, `stopped|session ended`)
}

// TestSetupOverADeadToken: another token takes the place of the stored one, when the person agrees and
// not before that; the configuration stays.
func TestSetupOverADeadToken(t *testing.T) {
	t.Parallel()
	api := newSetupAPI("pibot")
	t.Cleanup(api.Close)
	home := t.TempDir()
	const dead = "123456:BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB\n"
	config, token := filepath.Join(home, "connector.toml"), filepath.Join(home, "mine.secret")
	text := "# mine\n[[bots]]\nplatform = \"telegram\" # pi\ntoken_file = \"mine.secret\"\napi_base = \"" + api.URL + "\"\n"
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o644), os.WriteFile(token, []byte(dead), 0o600)); err != nil {
		t.Fatal(err)
	}
	holds := func(path, want string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
		}
	}
	setup := func() *terminal {
		cmd := exec.Command("hermes-connector", "setup", "--config", config)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + home, "RUNTIME_DIRECTORY=" + home + "/run", "TERM=dumb"}
		cmd.Dir = home
		s := sit(t, cmd)
		s.sees(t, `does not accept the token(?s:.*)1  give another token(?s:.*)\[1\] > `)
		s.types(t, "1\n")
		s.sees(t, `The token \(it is not shown[^>]*> `)
		s.types(t, setupToken+"\n")
		s.sees(t, `knows the bot as @pibot(?s:.*)Continue with it\?[^>]*> `)
		for _, answer := range []string{"1", "no", "no"} {
			s.types(t, answer+"\n")
			s.sees(t, `\(or type back\) [^>]*> $`)
		}
		holds(token, dead)
		return s
	}
	ask := setup()
	ask.types(t, "no\n")
	ask.sees(t, `setup continues where it left off`)
	holds(token, dead)

	ask = setup()
	ask.types(t, "yes\n")
	ask.sees(t, `the new token is in .*mine.secret`)
	holds(token, setupToken+"\n")
	holds(config, text)
	if st, err := os.Stat(token); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v", st.Mode(), err)
	}
	if strings.Contains(ask.all(), setupToken) {
		t.Error("the token is shown")
	}
}
