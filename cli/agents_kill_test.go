package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

// TestKilledWhileProgramsHandOver kills the binary again and again while programs hand over, and schedule wakes. A program comes
// again with its dispatch until it has a receipt: whatever has one arrives, whatever is scheduled comes too, and a kill makes at
// most one message arrive twice.
func TestKilledWhileProgramsHandOver(t *testing.T) {
	t.Parallel()
	kills := long.Pick(5, 500)
	const programs = 6
	p := newProgrammed(t)
	ctx, cancel := context.WithCancel(t.Context())
	var listening, handing sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	p.start()
	gateway := p.enroll()
	var mu sync.Mutex
	heard := make(map[string]int) // by message
	gateway.Observe = func(sent bool, f wire.Frame) {
		if in, ok := f.(wire.Inbound); ok && !sent {
			mu.Lock()
			defer mu.Unlock()
			_, what, _ := strings.Cut(in.Event.Text, "\n\n")
			heard[what]++
		}
	}
	gateway.Identities = []relay.Bot{{Platform: "telegram"}} // which is no bot of this connector
	var tokens []string
	for n := range programs {
		out, err := p.command("agents", "add", fmt.Sprint("p", n), "--agent", "home", "--json").Output()
		p.must(err)
		var made struct{ Token string }
		p.must(json.Unmarshal(out, &made))
		tokens = append(tokens, made.Token)
	}
	listening.Go(func() {
		for ctx.Err() == nil {
			_ = gateway.Run(ctx) // it dials again after each life of the connector
		}
	})
	quiet, hush := context.WithCancel(ctx)
	defer hush()
	receipts := make([][]string, programs)
	for n := range programs {
		handing.Go(func() { receipts[n] = p.handOver(ctx, quiet, fmt.Sprint("p", n), tokens[n], 4*kills) })
	}
	for range kills {
		select {
		case <-time.After(time.Duration(20+rand.IntN(300)) * time.Millisecond):
		case <-ctx.Done():
		}
		p.kill()
		p.start()
	}
	hush()
	handing.Wait()
	all := 0
	for n, given := range receipts {
		all += len(given)
		for _, what := range given {
			wait.Until(p.t, what+" has come", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return heard[what] > 0
			})
		}
		if len(given) > 0 { // one each: a program may not ask often
			p.untilTaken(ctx, tokens[n], given[len(given)-1])
		}
	}
	mu.Lock()
	defer mu.Unlock()
	again := 0
	for _, times := range heard {
		again += max(0, times-1)
	}
	if again > kills {
		t.Errorf("%d came twice in %d kills", again, kills)
	}
	t.Logf("%d receipts, %d came twice in %d kills", all, again, kills)
	cancel()
	listening.Wait()
	p.kill()
}

// newProgrammed is a posted that lets programs in, and has no bot of a network.
func newProgrammed(t *testing.T) *posted {
	p := &posted{t: t, dir: t.TempDir(), heard: make(map[relay.PlatformID][][]int)}
	port, release, err := platformtest.HoldPort()
	p.must(err)
	t.Cleanup(release)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p.origin = "http://" + addr
	conf := fmt.Sprintf("listen = %q\ndata_dir = \"data\"\n[backup]\nnightly = false\n[agents]\nenabled = true\n", addr)
	p.must(os.WriteFile(filepath.Join(p.dir, "connector.toml"), []byte(conf), 0o600))
	t.Cleanup(func() {
		if p.cmd != nil {
			p.kill()
		}
	})
	return p
}

// handOver hands over one thing after the other until quiet ends, most of them at the most, each until there is a receipt; every fifth is a wake that is
// scheduled. It returns what has one.
func (p *posted) handOver(ctx, quiet context.Context, name, token string, most int) (given []string) {
	for n := 1; n <= most && quiet.Err() == nil && ctx.Err() == nil; n++ {
		select {
		case <-time.After(time.Duration(rand.IntN(250)) * time.Millisecond): // the agent answers one after the other
		case <-ctx.Done():
		}
		what := fmt.Sprint(name, "-", n) // also its session, or each would wait for the end of the turn before
		path, body := "/agents/deliver/home@"+what, map[string]any{"kind": "augment", "content": what, "meta": map[string]any{"dispatch_id": what}}
		if n%5 == 0 {
			path, body = "/agents/wake/home@"+what, map[string]any{"context": what, "dispatch_id": what, "when": time.Now().Add(50 * time.Millisecond).UnixMilli()}
		}
		for {
			if code, _ := p.call(ctx, http.MethodPost, path, token, body); code == http.StatusOK {
				given = append(given, what)
				break
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return given
			}
		}
	}
	return given
}

// untilTaken waits until the agent has taken what has that receipt.
func (p *posted) untilTaken(ctx context.Context, token, dispatch string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		code, out := p.call(ctx, http.MethodGet, "/agents/receipt/"+dispatch+"?agent=home", token, nil)
		if code == http.StatusOK && strings.Contains(out, `"state":"taken"`) {
			return
		}
		if code == http.StatusNotFound || code == http.StatusOK && strings.Contains(out, `"state":"dead"`) {
			p.t.Errorf("%s: %d %s", dispatch, code, out)
			return
		}
		select {
		case <-time.After(time.Second): // as often as a program may ask
		case <-ctx.Done():
			p.t.Fatalf("%s is not taken: %d %s", dispatch, code, out)
		}
	}
}

// call is the answer of a route to a program; 0: there was none.
func (p *posted) call(ctx context.Context, method, path, token string, body any) (code int, out string) {
	raw, err := json.Marshal(body)
	if err != nil {
		p.t.Error(err)
		return 0, ""
	}
	r, err := http.NewRequestWithContext(ctx, method, p.origin+path, bytes.NewReader(raw))
	if err != nil {
		p.t.Error(err)
		return 0, ""
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil { // killed
		return 0, ""
	}
	if c := res.StatusCode; c >= 400 && c != http.StatusTooManyRequests && c != http.StatusServiceUnavailable {
		p.t.Errorf("%s: %d %s", path, c, text)
	}
	return res.StatusCode, string(text)
}
