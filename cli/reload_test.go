package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/echo"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// aviary is a Bot API with many bots: each is its token's number.
type aviary struct {
	url string

	mu    sync.Mutex // guards the fields below
	birds map[string]*aBird
}

// aBird is one bot of an aviary.
type aBird struct {
	said      []string // what people wrote, oldest first: update n+1 is the n-th
	confirmed int
	met       int      // calls of getMe
	asking    []*ask   // requests for updates that are not answered
	twice     bool     // it waited for two of them at once
	answers   []string // what the bot sent
	changed   chan struct{}
}

func newAviary(t *testing.T) *aviary {
	a := &aviary{birds: make(map[string]*aBird)}
	srv := httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	a.url = srv.URL
	return a
}

// with calls do with the bot.
func (a *aviary) with(id string, do func(*aBird)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.birds[id]
	if b == nil {
		b = &aBird{changed: make(chan struct{})}
		a.birds[id] = b
	}
	do(b)
}

// met is how often the bot has asked who it is.
func (a *aviary) met(id string) (n int) {
	a.with(id, func(b *aBird) { n = b.met })
	return n
}

func (a *aviary) say(id, text string) {
	a.with(id, func(b *aBird) {
		b.said = append(b.said, text)
		close(b.changed)
		b.changed = make(chan struct{})
	})
}

func (a *aviary) serve(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/bot"), "/")
	id, _, _ := strings.Cut(parts[0], ":")
	_ = r.ParseMultipartForm(1 << 20) // an ordinary form is none
	result := any(true)
	switch parts[len(parts)-1] {
	case "getMe":
		a.with(id, func(b *aBird) { b.met++ })
		n, _ := strconv.Atoi(id)
		result = map[string]any{"id": n, "is_bot": true, "username": "bird" + id + "_bot", "can_read_all_group_messages": true}
	case "getUpdates":
		result = a.updates(r, id)
	case "getWebhookInfo":
		result = map[string]any{"url": ""}
	case "sendMessage":
		n := 0
		a.with(id, func(b *aBird) { b.answers = append(b.answers, r.FormValue("text")); n = len(b.answers) })
		chat, _ := strconv.Atoi(r.FormValue("chat_id"))
		result = map[string]any{"message_id": 100_000 + n, "date": time.Now().Unix(), "chat": map[string]any{"id": chat, "type": "private"}}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
}

// ask is a request for updates. Its context ends when the asker hangs up.
type ask struct {
	context.Context
	judged sync.WaitGroup // by those that came meanwhile; it is not answered before
}

// leaves is how long an asker who has gone may take to be seen as gone: they hang up a moment after they have stopped
// waiting, and that is read here when there is time. One who waits on does so for longer (configure).
const leaves = patience / 2

// updates answers a request for updates, after a second at most. Of two that are there at once, one's asker must have
// gone; which of them was asked first is not known here, for what an asker sent before they went may be read last.
func (a *aviary) updates(r *http.Request, id string) any {
	offset, _ := strconv.Atoi(r.FormValue("offset"))
	me, others := &ask{Context: r.Context()}, []*ask(nil)
	a.with(id, func(b *aBird) {
		b.confirmed = max(b.confirmed, offset-1)
		others = slices.Clone(b.asking)
		for _, other := range others {
			other.judged.Add(1)
		}
		b.asking = append(b.asking, me)
	})
	defer func() {
		a.with(id, func(b *aBird) { b.asking = slices.DeleteFunc(b.asking, func(other *ask) bool { return other == me }) })
		me.judged.Wait()
	}()
	for _, other := range others {
		select {
		case <-other.Done():
		case <-me.Done():
		case <-time.After(leaves):
			a.with(id, func(b *aBird) { b.twice = true })
		}
		other.judged.Done()
	}
	end := time.NewTimer(time.Second)
	defer end.Stop()
	for {
		out, changed := []any{}, (<-chan struct{})(nil)
		person, _ := strconv.Atoi("9" + id) // each bot has one of its own
		a.with(id, func(b *aBird) {
			for n := b.confirmed; n < len(b.said) && len(out) < 20; n++ {
				out = append(out, map[string]any{"update_id": n + 1, "message": map[string]any{
					"message_id": n + 1, "date": time.Now().Unix(), "text": b.said[n],
					"chat": map[string]any{"id": person, "type": "private"}, "from": map[string]any{"id": person, "first_name": "Ann"},
				}})
			}
			changed = b.changed
		})
		if len(out) > 0 || r.FormValue("timeout") == "0" {
			return out
		}
		select {
		case <-changed:
		case <-end.C:
			return out
		case <-r.Context().Done():
			return out
		}
	}
}

// listener is a gateway that notes what it is given, and how often it had to dial.
type listener struct {
	mu    sync.Mutex // guards the fields below
	heard []string
	dials int
}

// count is how many messages it was given.
func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.heard)
}

func (l *listener) run(ctx context.Context, gw *echo.Gateway) {
	gw.Observe = func(_ bool, f wire.Frame) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch f := f.(type) {
		case wire.Inbound:
			l.heard = append(l.heard, strings.Split(f.Event.Text, "\n")...) // what gathered comes as one
		case wire.Hello:
			l.dials++
		}
	}
	_ = gw.Run(ctx) // its end is what is counted
}

// nest is a server with a folder of its own, run by the binary.
type nest struct {
	t   *testing.T
	dir string
}

func (n *nest) run(args ...string) string {
	n.t.Helper()
	cmd := n.command(args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (n *nest) command(args ...string) *exec.Cmd {
	cmd := exec.Command("hermes-connector", args...)
	cmd.Dir = n.dir
	cmd.Env = []string{"HOME=" + n.dir, "RUNTIME_DIRECTORY=" + n.dir + "/run", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	return cmd
}

func (n *nest) write(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// configure writes a configuration with those bots; a bot is its number, and what else stands in its table.
func (n *nest) configure(api string, bots ...string) {
	text := "data_dir = \"data\"\nlisten = \"127.0.0.1:0\"\n[backup]\nnightly = false\n"
	for _, b := range bots {
		id, more, _ := strings.Cut(b, " ")
		n.write(id+".token", id+":"+strings.Repeat("x", 35))
		text += fmt.Sprintf("[[bots]]\nplatform = \"telegram\"\ntoken_file = \"%s.token\"\napi_base = %q\nanswer_timeout = \"%s\"\n%s\n", id, api, patience, more)
	}
	n.write("connector.toml", text)
}

// TestReloadUnderLoad changes, adds and removes bots of a server that works, by SIGHUP and by command, with faulty
// configurations in between. Another bot and the gateways notice nothing, a bot never has two connections, and no
// message of any bot is lost or comes twice.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	api := newAviary(t)
	n := &nest{t: t, dir: t.TempDir()}
	n.configure(api.url, "1001", "1002")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	cmd, log := n.command("serve"), filepath.Join(n.dir, "serve.err")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	defer func() { _ = cmd.Process.Kill() }()
	line := make([]byte, 200)
	k, err := out.Read(line)
	m := regexp.MustCompile(`listening on http://(\S+)`).FindStringSubmatch(string(line[:k]))
	if err != nil || m == nil {
		t.Fatalf("first line %q, %v", line[:k], err)
	}
	wg.Go(func() { ended <- cmd.Wait() })

	gateways := make(map[string]*listener)
	for name, bot := range botOf {
		var e struct {
			ID     relay.GatewayID `json:"gatewayId"`
			Secret string          `json:"secret"`
		}
		enroll := n.command("enroll", name, "--json")
		text, err := enroll.Output()
		if err == nil {
			err = json.Unmarshal(text, &e)
		}
		if err != nil {
			t.Fatal(err)
		}
		n.run("bind", name, "telegram", "9"+bot)
		l := &listener{}
		gateways[name] = l
		gw := &echo.Gateway{}
		gw.URL, gw.ID, gw.Secret = "ws://"+m[1]+"/relay", e.ID, relay.NewSecret([]byte(e.Secret))
		gw.Identities = []relay.Bot{{Platform: "telegram", ID: relay.BotID(bot)}}
		wg.Go(func() { l.run(ctx, gw) })
	}

	said := make(map[string][]string)
	var saying sync.WaitGroup
	talk, hush := context.WithCancel(ctx)
	defer hush()
	var mu sync.Mutex // guards said
	for name, l := range gateways {
		id := botOf[name]
		saying.Go(func() {
			for i := 0; talk.Err() == nil; {
				if i-l.count() < unheard {
					text := fmt.Sprintf("%s-%d", id, i)
					api.say(id, text)
					mu.Lock()
					said[id] = append(said[id], text)
					mu.Unlock()
					i++
				}
				select {
				case <-talk.Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}

	reloaded := func() int {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "configuration was")
	}
	began := time.Now()
	const rounds = 12
	for i := range rounds {
		steps := [][]string{
			{"1001", fmt.Sprintf("1002 poll_timeout = \"%ds\"", 2+i)},         // changed
			{"1003", "1001", fmt.Sprintf("1002 poll_timeout = \"%ds\"", 2+i)}, // another comes, and the order is another
			{"1001", fmt.Sprintf("1002 poll_timeout = \"%ds\"", 2+i)},         // and goes
		}
		for _, bots := range steps {
			n.configure(api.url, bots...)
			before := reloaded()
			if i%2 == 0 {
				n.run("reload")
			} else {
				if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
					t.Fatal(err)
				}
				wait.Until(t, "a reload by signal", func() bool { return reloaded() > before })
			}
			if slices.Contains(bots, "1003") { // a slow machine may take it away before it has begun
				wait.Until(t, "the start of the bot that came", func() bool { return api.met("1003") > i })
			}
		}
		wait.Until(t, "the start of the bot that was changed", func() bool { return api.met("1002") > i+1 })
		n.write("connector.toml", "nonsense = 1\n")
		if out, err := n.command("reload").CombinedOutput(); err == nil || !strings.Contains(string(out), "nothing was changed") {
			t.Errorf("a configuration with a fault: %v\n%s", err, out)
		}
	}
	hush()
	saying.Wait()
	for name, l := range gateways {
		wait.Until(t, "every message at "+name, func() bool { return l.count() >= len(said[botOf[name]]) })
	}
	for name, l := range gateways {
		l.mu.Lock()
		if want := said[botOf[name]]; !slices.Equal(l.heard, want) {
			t.Errorf("%s heard %d messages, want %d in order", name, len(l.heard), len(want))
		}
		if l.dials != 1 {
			t.Errorf("%s dialled %d times: it noticed", name, l.dials)
		}
		l.mu.Unlock()
	}
	api.with("1001", func(b *aBird) {
		if b.met != 1 {
			t.Errorf("the bot that nobody changed was started %d times", b.met)
		}
	})
	for _, id := range []string{"1001", "1002", "1003"} {
		api.with(id, func(b *aBird) {
			if b.twice {
				t.Errorf("bot %s asked for updates twice at once", id)
			}
			if id != "1001" && b.met < rounds {
				t.Errorf("bot %s was started %d times, want %d at least", id, b.met, rounds)
			}
		})
	}
	t.Logf("%d reloads in %s, %d and %d messages", 4*rounds, time.Since(began).Round(time.Millisecond), len(said["1001"]), len(said["1002"]))
	cancel()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		text, _ := os.ReadFile(log)
		t.Errorf("the end: %v\n%s", err, text)
	}
}

// botOf is the bot that the gateway fronts.
var botOf = map[string]string{"home": "1001", "kids": "1002"}
