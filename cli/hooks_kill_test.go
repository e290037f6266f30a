package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/echo"
	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// TestKilledWhileCalled kills the binary again and again, before, while and after it takes in what networks post.
// A network says a thing until it is answered with success, and then the next: each thing arrives, in order, and a
// kill makes at most one of a network's deliveries arrive twice.
func TestKilledWhileCalled(t *testing.T) {
	t.Parallel()
	const kills = 6
	p := newPosted(t)
	ctx, cancel := context.WithCancel(t.Context())
	var listening, saying sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	p.start()
	gateway := p.enroll()
	gateway.Pause = 20 * time.Millisecond
	listening.Go(func() { _ = gateway.Run(ctx) }) // it dials again after each life of the connector
	quiet, hush := context.WithCancel(ctx)
	defer hush()
	said := make([]int, len(p.callers))
	for n := range p.callers {
		saying.Go(func() { said[n] = p.say(ctx, quiet, p.callers[n]) })
	}
	for range kills {
		select {
		case <-time.After(time.Duration(20+rand.IntN(long.Pick(100, 300))) * time.Millisecond): // what gathers is drained by turns
		case <-ctx.Done():
		}
		p.kill()
		p.start()
	}
	hush()
	saying.Wait()
	for n, c := range p.callers {
		p.await(c, said[n], kills)
		t.Logf("%s: %d things said", c.network.Name, said[n])
	}
	cancel()
	listening.Wait()
	p.kill()
}

// posted is the binary with bots that their networks call.
type posted struct {
	t       *testing.T
	dir     string
	origin  string
	callers []caller
	cmd     *exec.Cmd

	mu    sync.Mutex                   // guards heard
	heard map[relay.PlatformID][][]int // the things that came as one
}

func newPosted(t *testing.T) *posted {
	p := &posted{t: t, dir: t.TempDir(), callers: hookCallers(), heard: make(map[relay.PlatformID][][]int)}
	port, release, err := platformtest.HoldPort()
	p.must(err)
	t.Cleanup(release)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p.origin = "http://" + addr
	apis := &world{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res, err := apis.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	t.Cleanup(api.Close)
	file := func(name, text string) { p.must(os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600)) }
	conf := fmt.Sprintf("listen = %q\ndata_dir = \"data\"\npublic_url = %q\n[backup]\nnightly = false\n[wake]\nallow = [\"127.0.0.1\"]\n", addr, ourOrigin)
	for _, c := range p.callers {
		name := string(c.network.Name)
		conf += fmt.Sprintf("[[bots]]\nplatform = %q\n", name)
		if c.values["reply_url"] == "" {
			conf += fmt.Sprintf("api_base = %q\n", api.URL)
		}
		secrets := map[string]string{c.tokenKey(): c.token}
		for key, s := range c.secrets {
			secrets[key] = s
		}
		for key, s := range secrets {
			conf += fmt.Sprintf("%s_file = %q\n", key, name+"."+key)
			file(name+"."+key, s)
		}
		for key, v := range c.values {
			if key == "reply_url" { // what waits is given when the answer before is there
				v = api.URL + "/answers"
			}
			conf += fmt.Sprintf("%s = %q\n", key, v)
		}
	}
	file("connector.toml", conf)
	t.Cleanup(func() {
		if p.cmd != nil {
			p.kill()
		}
	})
	return p
}

func (p *posted) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *posted) command(args ...string) *exec.Cmd {
	cmd := exec.Command("hermes-connector", args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"HOME=" + p.dir, "RUNTIME_DIRECTORY=" + p.dir + "/run", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	return cmd
}

// start runs the server until it listens.
func (p *posted) start() {
	p.t.Helper()
	cmd := p.command("serve")
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	p.must(err)
	defer func() { _ = log.Close() }() // the child has its own
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	p.must(err)
	p.must(cmd.Start())
	p.cmd = cmd
	if line, _ := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(line, "listening on ") {
		raw, _ := os.ReadFile(filepath.Join(p.dir, "log"))
		p.t.Fatalf("the server does not listen: %s", raw)
	}
}

func (p *posted) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // killed
	p.cmd = nil
}

// enroll makes a gateway that every network's person is bound to.
func (p *posted) enroll() *echo.Gateway {
	out, err := p.command("enroll", "home", "--new", "--json").Output()
	p.must(err)
	var cred struct{ GatewayID, Secret string }
	p.must(json.Unmarshal(out, &cred))
	g := &echo.Gateway{}
	g.URL, g.ID, g.Secret = strings.Replace(p.origin, "http", "ws", 1)+"/relay", relay.GatewayID(cred.GatewayID), relay.NewSecret([]byte(cred.Secret))
	g.Observe = func(sent bool, f wire.Frame) {
		if in, ok := f.(wire.Inbound); ok && !sent {
			p.mu.Lock()
			defer p.mu.Unlock()
			var things []int
			for line := range strings.SplitSeq(in.Event.Text, "\n") {
				n, _ := strconv.Atoi(line)
				things = append(things, n)
			}
			p.heard[in.Event.Source.Platform] = append(p.heard[in.Event.Source.Platform], things)
		}
	}
	for _, c := range p.callers {
		p.must(p.command("bind", "home", string(c.network.Name), string(c.person)).Run())
		g.Identities = append(g.Identities, relay.Bot{Platform: c.network.Name, ID: relay.BotID(filepath.Base(c.path()))})
	}
	return g
}

// say posts numbers until quiet ends, each until it is answered with success, and returns how many.
func (p *posted) say(ctx, quiet context.Context, c caller) int {
	n := 1
	for ; ; n++ {
		for !p.post(ctx, c.signed(c, n, strconv.Itoa(n), time.Now())) {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return n
			}
		}
		if quiet.Err() != nil {
			return n
		}
	}
}

// post reports whether a request was answered with success.
func (p *posted) post(ctx context.Context, r *http.Request) bool {
	out, err := http.NewRequestWithContext(ctx, r.Method, p.origin+r.URL.RequestURI(), r.Body)
	if err != nil {
		p.t.Error(err)
		return false
	}
	out.Header = r.Header
	res, err := http.DefaultClient.Do(out)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusServiceUnavailable {
		p.t.Errorf("%s: %d", r.URL.Path, res.StatusCode)
	}
	return res.StatusCode == http.StatusOK
}

// await waits until all that was said has come, as long as more comes, and looks at how it came.
func (p *posted) await(c caller, said, kills int) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond) // what is written down can only be looked at
	defer tick.Stop()
	giveUp, before := time.NewTimer(time.Minute), 0
	defer giveUp.Stop()
	for {
		p.mu.Lock()
		heard := p.heard[c.network.Name]
		p.mu.Unlock()
		if len(heard) > before {
			before = len(heard)
			giveUp.Reset(time.Minute)
		}
		first, last, again := 0, 0, 0
		for _, things := range heard {
			for i, n := range things {
				if n != things[0]+i {
					p.t.Fatalf("%s: %v came as one", c.network.Name, things)
				}
			}
			end := things[len(things)-1]
			switch {
			case things[0] == last+1:
			case things[0] == first: // with what was said meanwhile; after two deaths in flight what came as one comes one by one
				again++
			default:
				p.t.Fatalf("%s: %v comes after %d to %d", c.network.Name, things, first, last)
			}
			first, last = things[0], end
		}
		if again > kills {
			p.t.Errorf("%s: %d came twice in %d kills", c.network.Name, again, kills)
		}
		if last == said {
			return
		}
		select {
		case <-tick.C:
		case <-giveUp.C:
			p.t.Fatalf("%s: %d of %d came", c.network.Name, last, said)
		}
	}
}
