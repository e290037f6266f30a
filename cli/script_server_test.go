package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/cli/echo"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// patience bounds everything a script waits for. Only a hang meets it, however busy the machine is.
const patience = time.Minute

// running is the server of one script. Its output is in the files serve.out and serve.err.
type running struct {
	cmd *exec.Cmd
	url string // of the door, ws://host:port/relay
}

func server(ts *testscript.TestScript) *running { return ts.Value("server").(*running) }

// stop ends the server, if it runs, and reports how.
func (r *running) stop(sig os.Signal) error {
	if r.cmd == nil {
		return nil
	}
	cmd := r.cmd
	r.cmd = nil
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return cmd.Wait()
}

// serve starts the binary and waits until it listens. Arguments go behind "serve".
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || server(ts).cmd != nil {
		ts.Fatalf("usage: serve [ARG]..., one at a time")
	}
	out, err := os.Create(ts.MkAbs("serve.out"))
	ts.Check(err)
	errs, err := os.OpenFile(ts.MkAbs("serve.err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	cmd := exec.Command("hermes-connector", append([]string{"serve"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), out, errs
	cmd.Env = environ(ts)
	ts.Check(cmd.Start())
	ts.Check(errors.Join(out.Close(), errs.Close())) // the child has its own
	r := server(ts)
	r.cmd = cmd
	ts.Defer(func() { _ = r.stop(os.Kill) })
	line := awaitFile(ts, "serve.out", regexp.MustCompile(`(?m)^listening on http://(\S+)$`))
	r.url = "ws://" + line[1] + "/relay"
	ts.Setenv("SERVER", "http://"+line[1])
}

// connected [ARG]... waits until the server that the arguments lead to says that every bot of it is connected. It listens
// before that, and until then `status` exits with 1.
func connected(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: connected [ARG]...")
	}
	var said []byte
	if !wait.For(func() (ok bool) {
		said, ok = connectedIn(ts.MkAbs("."), environ(ts), args)
		return ok
	}) {
		ts.Fatalf("not every bot is connected:\n%s", said)
	}
}

// connectedIn asks a server once whether every bot of it is connected.
func connectedIn(dir string, env, args []string) (said []byte, ok bool) {
	cmd := exec.Command("hermes-connector", append([]string{"healthcheck", "--ready"}, args...)...)
	cmd.Dir, cmd.Env = dir, env
	said, err := cmd.CombinedOutput()
	return said, err == nil
}

// environ is the script's environment for a child that the script's own exec does not start.
func environ(ts *testscript.TestScript) []string {
	env := []string{}
	for _, name := range []string{"HOME", "PATH", "TMPDIR", "WORK", "GOCOVERDIR", "RUNTIME_DIRECTORY", "NOTIFY_SOCKET", "XDG_CONFIG_HOME", "GORACE"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "TESTSCRIPT") {
			env = append(env, kv)
		}
	}
	return env
}

// halt [-KILL] ends the server; without -KILL it must exit with 0.
func halt(ts *testscript.TestScript, neg bool, args []string) {
	if slices.Equal(args, []string{"-KILL"}) {
		if err := server(ts).stop(os.Kill); err == nil {
			ts.Fatalf("a killed server exited with 0")
		}
		return
	}
	if neg || len(args) > 0 {
		ts.Fatalf("usage: halt [-KILL]")
	}
	ts.Check(server(ts).stop(syscall.SIGTERM))
}

// await FILE REGEXP [VARIABLE] waits until the file matches. The variable gets what the first group matched.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: await FILE REGEXP [VARIABLE]")
	}
	match := awaitFile(ts, args[0], regexp.MustCompile(`(?m)`+args[1]))
	if len(args) == 3 {
		ts.Setenv(args[2], match[1])
	}
}

func awaitFile(ts *testscript.TestScript, file string, re *regexp.Regexp) []string {
	var last []byte
	var match []string
	if !wait.For(func() bool {
		last, _ = os.ReadFile(ts.MkAbs(file)) // not there yet is empty
		match = re.FindStringSubmatch(string(last))
		return match != nil
	}) {
		ts.Fatalf("%s does not match %s:\n%s", file, re, last)
	}
	return match
}

// say LINE appends a line to what the loopback bot's folder "loop" says.
func say(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: say 'PERSON[@CHAT] TEXT'")
	}
	f, err := os.OpenFile(ts.MkAbs("loop/say"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	ts.Check(err)
	_, err = f.WriteString(args[0] + "\n")
	ts.Check(errors.Join(err, f.Close()))
}

// backlog NAME N waits until that many entries wait for the instance, by `status --json`.
func backlog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: backlog NAME N")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	var got string
	if !wait.For(func() bool {
		cmd := exec.Command("hermes-connector", "status", "--json")
		cmd.Dir, cmd.Env = ts.MkAbs("."), environ(ts)
		out, _ := cmd.Output() // exits with 1 while a bot connects
		got = string(out)
		var st struct {
			Instances []struct {
				InstanceID string
				Backlog    int
			}
		}
		if json.Unmarshal(out, &st) != nil {
			return false
		}
		for _, i := range st.Instances {
			if i.InstanceID == args[0] {
				return i.Backlog == want
			}
		}
		return false
	}) {
		ts.Fatalf("the backlog of %s is not %d:\n%s", args[0], want, got)
	}
}

// gateway CREDENTIALS N [SEEN] runs the echo gateway with the credentials in a file that
// `enroll --json` wrote, until it acknowledged N messages and saw as many results; what it
// received goes to the file SEEN, one text a line. "! gateway CREDENTIALS" must be refused with 4401.
func gateway(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || !neg && len(args) < 2 {
		ts.Fatalf("usage: gateway CREDENTIALS N [SEEN] | ! gateway CREDENTIALS")
	}
	var cred struct {
		GatewayID, Secret string
		Env               map[string]string
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &cred))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var seen bytes.Buffer
	acks, results := 0, 0
	want := 0
	if !neg {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		want = n
	}
	g := &echo.Gateway{}
	g.URL, g.ID, g.Secret = server(ts).url, relay.GatewayID(cred.GatewayID), relay.NewSecret([]byte(cred.Secret))
	g.Identities = []relay.Bot{{
		Platform: relay.PlatformID(cred.Env["GATEWAY_RELAY_PLATFORM"]), ID: relay.BotID(cred.Env["GATEWAY_RELAY_BOT_ID"]),
	}}
	g.Observe = func(sent bool, f wire.Frame) {
		switch f := f.(type) {
		case wire.Inbound:
			seen.WriteString(f.Event.Text + "\n")
		case wire.InboundAck:
			acks++
		case wire.OutboundResult:
			results++
		}
		if !neg && acks >= want && results >= want {
			cancel()
		}
	}
	err := g.Run(ctx)
	switch {
	case neg && !errors.Is(err, client.ErrRefused):
		ts.Fatalf("the gateway was not refused: %v", err)
	case !neg && err != nil:
		ts.Fatalf("gateway: %v; seen so far:\n%s", err, seen.Bytes())
	case !neg && (acks < want || results < want):
		ts.Fatalf("%d acknowledged and %d answered of %d; seen:\n%s", acks, results, want, seen.Bytes())
	}
	if len(args) > 2 {
		ts.Check(os.WriteFile(ts.MkAbs(args[2]), seen.Bytes(), 0o600))
	}
}

// freeport NAME puts the number of a free port into the variable. It stays free to the script's end.
func freeport(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeport NAME")
	}
	port, release, err := platformtest.HoldPort()
	ts.Check(err)
	ts.Defer(release)
	ts.Setenv(args[0], strconv.Itoa(port))
}

// partnersEnv names the variable with the folder of the npm packages that others wrote, telegram-test-api among
// them, a Bot API server. Scripts that need it are skipped where it is not set.
const partnersEnv = "HERMES_CONNECTOR_PARTNERS"

func condition(name string) (bool, error) {
	switch name {
	case "telegram-test-api":
		return os.Getenv(partnersEnv) != "", nil
	case "installed":
		return installed(), nil
	case "root":
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// installed reports whether this machine has a configuration of its own, which is taken where there is no other.
func installed() bool {
	_, err := os.Stat("/etc/hermes-connector/connector.toml")
	return err == nil
}
