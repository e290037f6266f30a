package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/wait"
)

var mcpCycles = flag.Int("kill.mcp", long.Pick(6, 40), "how often TestKillMCP kills something")

// TestKillMCP kills the process of `mcp`, the client that reads from it and the server in turn, while a person writes. Of what was
// said, out here:
//
//   - every message is given to the client, which forgets all when it dies;
//   - none is given again once the client has confirmed it, and been answered;
//   - an answer under a key is sent once at most, and is there if it was said to be sent;
//   - no message becomes a dead letter.
//
// Beside it a queue that is only in memory reads the messages of another person through a gateway of its own, and dies when the
// process or the client does; what it loses is printed. A thousand kills are
//
//	go test ./cli -run TestKillMCP -kill.mcp 1000 -timeout 2h -v
func TestKillMCP(t *testing.T) {
	t.Parallel()
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kill.seed %d", seed)
	b := newVictim(t, seed)
	b.bot.forgives()
	m := &mcpClient{b: b, given: make(map[string]int), confirmed: make(map[string]bool), sent: make(map[string]string), drop: make(chan struct{})}
	for i, name := range []string{"desk", "live"} {
		lines, err := b.command("enroll", name, "--new", "--mcp").Output()
		if err == nil {
			err = os.WriteFile(filepath.Join(b.dir, name+".env"), lines, 0o600)
		}
		if err == nil {
			err = b.command("link", name, "--user", fmt.Sprintf("telegram:%d", 2001+i)).Run()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { m.run(ctx) })
	live := newLiveOnly(t, b)
	defer live.end()
	said := 0
	say := func(n int) {
		for range n {
			said++
			for user := range int64(2) {
				b.bot.say(2001+user, fmt.Sprintf("m%d.", said))
			}
		}
	}
	pause := func() { <-time.After(time.Duration(20+b.rand.IntN(300)) * time.Millisecond) }
	for n := range *mcpCycles {
		say(1 + b.rand.IntN(4))
		pause()
		switch n % 3 {
		case 0:
			m.kill()
			live.die()
		case 1:
			m.forget()
			live.die()
		case 2:
			b.kills++
			b.stop(os.Kill)
			b.start()
		}
		say(b.rand.IntN(3))
	}
	if !wait.For(func() bool { return m.done(said) }) {
		t.Fatalf("messages are missing: %v\n%s", m.missing(said), b.log())
	}
	wait.Until(t, "the queue in memory gets what is left", func() bool { return live.read() > 0 && live.idle(b) })
	cancel()
	wg.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.faults {
		t.Error(f)
	}
	unsure := 0
	for text, status := range m.sent {
		times := b.bot.timesSent("re " + text)
		if times > 1 || times == 0 && status == "sent" || times == 1 && status == "not_sent" {
			t.Errorf("the answer to %s is %s, and was sent %d times", text, status, times)
		}
		if status == "unknown" {
			unsure++
		}
	}
	again := 0
	for _, n := range m.given {
		again += n - 1
	}
	dead, err := b.command("buffer", "dead", "desk", "--json").Output()
	if err != nil || strings.TrimSpace(string(dead)) != "[]" {
		t.Errorf("dead letters: %v, %s", err, dead)
	}
	b.stop(syscall.SIGTERM)
	t.Logf("%d kills, %d of the process, %d of the client, %d of the server; %d messages, of which 0 lost, %d given again before they were confirmed, 0 after; %d answers, %d unknown",
		*mcpCycles, m.kills, m.deaths, b.kills, said, again, len(m.sent), unsure)
	t.Logf("a queue that is only in memory lost %d of the same %d", said-live.read(), said)
}

// mcpClient is a client that reads all there is, and forgets it when it dies.
type mcpClient struct {
	b *victim

	mu            sync.Mutex // guards the fields below
	process       *os.Process
	killed        *os.Process   // the last that was
	drop          chan struct{} // closed when the client of now dies
	given         map[string]int
	confirmed     map[string]bool
	sent          map[string]string // the answers to messages, and their status
	faults        []string
	empty         bool // a poll returned nothing
	kills, deaths int
}

func (m *mcpClient) fault(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// kill kills the process.
func (m *mcpClient) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		m.kills++
		m.killed = m.process
		_ = m.process.Kill()
	}
}

// forget ends the client, which closes nothing in order.
func (m *mcpClient) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deaths++
	close(m.drop)
	m.drop = make(chan struct{})
}

func (m *mcpClient) missing(said int) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := 1; n <= said; n++ {
		if text := fmt.Sprintf("m%d.", n); m.given[text] == 0 {
			all = append(all, text)
		}
	}
	return all
}

// done reports whether all was given and nothing waits any more. What was confirmed by a client that died over it is in no book.
func (m *mcpClient) done(said int) bool {
	if len(m.missing(said)) > 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.empty
}

// run is one client after the other.
func (m *mcpClient) run(ctx context.Context) {
	for ctx.Err() == nil {
		m.session(ctx)
	}
}

// session is the life of one client, and of the process that it starts.
func (m *mcpClient) session(ctx context.Context) {
	cmd := m.b.command("mcp", "desk")
	in, err := cmd.StdinPipe()
	var out io.ReadCloser
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		m.fault("start: %v", err)
		return
	}
	m.mu.Lock()
	m.process = cmd.Process
	drop := m.drop
	m.mu.Unlock()
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-drop:
		case <-ctx.Done():
		case <-over:
		}
		_, _ = in.Close(), out.Close() // it may have ended already
	})
	c := &mcpCalls{in: in, out: bufio.NewReader(out)}
	if err := m.read(ctx, c); err != nil && !errors.Is(err, errGone) {
		m.fault("%v", err)
	}
	close(over)
	watching.Wait()
	m.mu.Lock()
	m.process = nil // before it is waited for: its id may be another's then
	killed := m.killed == cmd.Process
	m.mu.Unlock()
	if err := cmd.Wait(); !killed && err != nil {
		m.fault("the process ended with %v: %s", err, log.Bytes()[max(0, log.Len()-1000):])
	}
}

// errGone is the end of a client or of its process.
var errGone = errors.New("gone")

// read reads what comes, and confirms it with the next poll.
func (m *mcpClient) read(ctx context.Context, c *mcpCalls) error {
	if _, err := c.call("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`); err != nil {
		return err
	}
	if err := c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		return err
	}
	after := int64(0)
	texts := make(map[int64]string)
	for ctx.Err() == nil {
		var got struct {
			Events []struct {
				Cursor     int64
				Text       string
				SessionKey string
			}
			Next int64 `json:"next_cursor"`
		}
		held, err := c.tool("events_poll", fmt.Sprintf(`{"after_cursor":%d,"limit":4}`, after), &got)
		if err != nil {
			return err
		}
		if held { // by the process of the client before
			<-time.After(50 * time.Millisecond)
			continue
		}
		m.mu.Lock()
		m.empty = len(got.Events) == 0
		for cursor, text := range texts {
			if cursor <= after {
				m.confirmed[text] = true
				delete(texts, cursor)
			}
		}
		for _, e := range got.Events {
			if m.confirmed[e.Text] {
				m.faults = append(m.faults, fmt.Sprintf("%s was given again after it was confirmed", e.Text))
			}
			m.given[e.Text]++
			texts[e.Cursor] = e.Text
		}
		m.mu.Unlock()
		after = got.Next
		for _, e := range got.Events {
			if err := m.answer(c, e.SessionKey, e.Text); err != nil {
				return err
			}
		}
		if len(got.Events) == 0 {
			if _, err := c.tool("events_wait", `{"timeout_ms":100}`, &struct{}{}); err != nil {
				return err
			}
		}
	}
	return errGone
}

// answer answers every third message, under a key.
func (m *mcpClient) answer(c *mcpCalls, session, text string) error {
	n := 0
	_, _ = fmt.Sscanf(text, "m%d.", &n)
	if n%3 != 0 {
		return nil
	}
	var got struct{ Result struct{ Status string } }
	_, err := c.tool("messages_send", fmt.Sprintf(`{"session_key":%q,"text":%q,"key":%q}`, session, "re "+text, text), &got)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if was := m.sent[text]; was == "sent" && got.Result.Status != was {
		m.faults = append(m.faults, fmt.Sprintf("the answer to %s was %s, and is %s", text, was, got.Result.Status))
	}
	m.sent[text] = got.Result.Status
	return nil
}

// mcpCalls makes one call after the other.
type mcpCalls struct {
	in  io.Writer
	out *bufio.Reader
	ids int
}

func (c *mcpCalls) write(line string) error {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		return errGone
	}
	return nil
}

func (c *mcpCalls) call(method, params string) (json.RawMessage, error) {
	c.ids++
	if err := c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.ids, method, params)); err != nil {
		return nil, err
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, errGone
		}
		var m struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("it says %s", line)
		}
		switch {
		case m.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, m.Error)
		case m.ID == c.ids:
			return m.Result, nil
		}
	}
}

// tool calls a tool; held: another process has the spool.
func (c *mcpCalls) tool(name, args string, out any) (held bool, err error) {
	raw, err := c.call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args))
	if err != nil {
		return false, err
	}
	var r struct {
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return false, err
	}
	if r.IsError && r.Structured == nil {
		if bytes.Contains(raw, []byte("held by process")) {
			return true, nil
		}
		return false, fmt.Errorf("%s %s: %s", name, args, raw)
	}
	return false, json.Unmarshal(r.Structured, out)
}

// liveOnly is a gateway that acknowledges what comes when it is in memory, as servers of MCP do that keep nothing; its client reads
// ten times in a second.
type liveOnly struct {
	t    *testing.T
	cred client.Credential

	mu    sync.Mutex // guards the fields below
	queue []string
	seen  map[string]bool
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

func newLiveOnly(t *testing.T, b *victim) *liveOnly {
	lines, err := os.ReadFile(filepath.Join(b.dir, "live.env"))
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]string)
	for line := range strings.Lines(string(lines)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = strings.Trim(value, "'")
	}
	l := &liveOnly{t: t, seen: make(map[string]bool)}
	if l.cred, err = client.ReadCredential(func(name string) string { return values[name] }); err != nil {
		t.Fatal(err)
	}
	l.begin()
	return l
}

// begin starts a process and its client.
func (l *liveOnly) begin() {
	ctx, cancel := context.WithCancel(l.t.Context())
	c := &client.Client{Credential: l.cred, OneByOne: true, Pause: 50 * time.Millisecond}
	l.mu.Lock()
	l.stop = cancel
	l.mu.Unlock()
	l.wg.Go(func() { _ = c.Run(ctx) })
	l.wg.Go(func() {
		for {
			f, err := c.Next(ctx)
			if err != nil {
				return
			}
			if in, ok := f.(wire.Inbound); ok {
				l.mu.Lock()
				l.queue = append(l.queue, in.Event.Text)
				l.mu.Unlock()
				_ = c.Acknowledge(ctx, in.Buffer)
			}
		}
	})
	l.wg.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.mu.Lock()
				for _, text := range l.queue {
					l.seen[text] = true
				}
				l.queue = nil
				l.mu.Unlock()
			case <-ctx.Done():
				return
			}
		}
	})
}

// die kills both, and starts them anew.
func (l *liveOnly) die() {
	l.end()
	l.mu.Lock()
	l.queue = nil
	l.mu.Unlock()
	l.begin()
}

func (l *liveOnly) end() {
	l.mu.Lock()
	stop := l.stop
	l.mu.Unlock()
	stop()
	l.wg.Wait()
}

// read is how many messages its clients have read.
func (l *liveOnly) read() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

// idle reports whether nothing waits for it any more.
func (l *liveOnly) idle(b *victim) bool {
	out, err := b.command("buffer", "list", "live", "--json").Output()
	l.mu.Lock()
	defer l.mu.Unlock()
	return err == nil && len(l.queue) == 0 && string(bytes.TrimSpace(out)) == "[]"
}
