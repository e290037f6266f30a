package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/client"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
)

// patience bounds what takes no time.
const patience = time.Minute

// connector is as much of one as a server needs: one delivery is in flight, and what was not acknowledged comes again with each
// connection that does not rest. It is what the program's own connector does, with what tests want to see.
type connector struct {
	url string

	mu      sync.Mutex // guards the fields below
	waiting []wire.Inbound
	link    *link
	idle    bool
	idles   int
	acked   []string
	acts    []relay.Action
	hold    bool // results are written by release
	held    []wire.OutboundResult
	files   map[string]string
	asked   map[string]int // files
	refuse  bool           // every credential
	down    bool           // nobody is let in
	// answer is what an action gets; nil: all is sent. drop: the connection ends instead.
	answer  func(n int, a relay.Action) (r wire.OutboundResult, drop bool)
	changed chan struct{}
}

type link struct {
	*wiretest.End
	sent string // the delivery that is in flight
}

func newConnector(t testing.TB) *connector {
	c := &connector{changed: make(chan struct{}), files: make(map[string]string), asked: make(map[string]int)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, ok := strings.CutPrefix(r.URL.Path, relay.MediaPath+"/"); ok {
			c.mu.Lock()
			text, there := c.files[id]
			c.asked[id]++
			c.mu.Unlock()
			if !there || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, text)
			return
		}
		c.mu.Lock()
		down := c.down
		c.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		end, err := wiretest.Accept(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		defer end.CloseNow() //nolint:errcheck // it is over
		if c.refuse {
			_ = end.Close(4401, "unauthorized")
			return
		}
		ctx, l := t.Context(), &link{End: end}
		_ = l.Each(ctx, func(f wire.Frame) error { return c.take(ctx, l, f) })
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (l *link) write(ctx context.Context, f wire.Frame) {
	_ = l.Send(ctx, f) // the other end may be dead
}

// errDropped ends a connection that is to be lost.
var errDropped = errors.New("the connection is to be lost")

// take does what a frame asks for.
func (c *connector) take(ctx context.Context, l *link, f wire.Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.wakeLocked()
	switch f := f.(type) {
	case wire.Hello:
		c.link, c.idle = l, false
		l.write(ctx, wire.Descriptor{Descriptor: relay.Descriptor{Platform: f.Platform}})
	case wire.InboundAck:
		c.acked = append(c.acked, f.Buffer)
		c.waiting = slices.DeleteFunc(c.waiting, func(in wire.Inbound) bool { return in.Buffer == f.Buffer })
		l.sent = ""
	case wire.GoingIdle:
		c.idle = true
		c.idles++
		l.write(ctx, wire.GoingIdleAck{})
	case wire.Outbound:
		c.acts = append(c.acts, f.Action)
		r := wire.OutboundResult{Result: relay.Result{MessageID: relay.MessageID("sent" + strconv.Itoa(len(c.acts)))}}
		if c.answer != nil {
			var drop bool
			if r, drop = c.answer(len(c.acts), f.Action); drop {
				return errDropped
			}
		}
		if r.ID = f.ID; c.hold {
			c.held = append(c.held, r)
			break
		}
		l.write(ctx, r)
	}
	c.pushLocked(ctx)
	return nil
}

// release writes the results that are held.
func (c *connector) release(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.held {
		c.link.write(ctx, r)
	}
	c.held = nil
}

func (c *connector) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *connector) pushLocked(ctx context.Context) {
	if l := c.link; l != nil && !c.idle && l.sent == "" && len(c.waiting) > 0 {
		l.sent = c.waiting[0].Buffer
		l.write(ctx, c.waiting[0])
	}
}

// say lays a delivery in the buffer.
func (c *connector) say(ctx context.Context, in wire.Inbound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, in)
	c.pushLocked(ctx)
}

// until waits until cond, which is called with c.mu held, is true.
func (c *connector) until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		c.mu.Lock()
		ok, changed := cond(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("%s did not happen", what)
		}
	}
}

func credentialFor(url string) client.Credential {
	return client.Credential{
		URL: strings.Replace(url, "http", "ws", 1) + "/relay", ID: "desk", Secret: relay.NewSecret([]byte("secret")),
		Identities: []relay.Bot{{Platform: "telegram", ID: "4242"}},
	}
}

// dm is a direct message of a person of that id.
func dm(n int, chat, text string) wire.Inbound {
	return wire.Inbound{Buffer: fmt.Sprintf("e-%d", n), Event: relay.Event{
		Text: text, MessageID: relay.MessageID("m" + strconv.Itoa(n)),
		Source: relay.Source{Platform: "telegram", ChatID: relay.ChatID(chat), ChatType: relay.ChatDM, UserID: relay.UserID(chat), UserName: "Ann"},
	}}
}

const dmKey = "agent:main:telegram:dm:"

// peer is an MCP client that writes and reads lines.
type peer struct {
	t     testing.TB
	in    io.WriteCloser
	out   sync.Mutex // held to write
	mu    sync.Mutex // guards the fields below
	ids   int
	waits map[int]chan reply
	notes []note
	odd   []string // lines that answer nothing
	woken chan struct{}
}

type reply struct {
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

type note struct {
	Method string
	Params json.RawMessage
}

func newPeer(t testing.TB, in io.WriteCloser, out io.Reader) *peer {
	p := &peer{t: t, in: in, waits: make(map[int]chan reply), woken: make(chan struct{})}
	go p.read(out)
	return p
}

func (p *peer) read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			JSONRPC string
			ID      *int
			Method  string
			Params  json.RawMessage
			reply
		}
		p.mu.Lock()
		switch err := json.Unmarshal(line, &m); {
		case err != nil || m.JSONRPC != "2.0":
			p.odd = append(p.odd, "not JSON-RPC: "+string(line))
		case m.Method != "":
			p.notes = append(p.notes, note{m.Method, m.Params})
		case m.ID != nil && p.waits[*m.ID] != nil:
			p.waits[*m.ID] <- m.reply
			delete(p.waits, *m.ID)
		default:
			p.odd = append(p.odd, string(line))
		}
		close(p.woken)
		p.woken = make(chan struct{})
		p.mu.Unlock()
	}
}

func (p *peer) write(line string) {
	p.out.Lock()
	defer p.out.Unlock()
	_, _ = io.WriteString(p.in, line+"\n") // the server may be gone
}

// ask begins a call.
func (p *peer) ask(method string, params any) <-chan reply {
	p.mu.Lock()
	p.ids++
	id, answer := p.ids, make(chan reply, 1)
	p.waits[id] = answer
	p.mu.Unlock()
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(string(raw))
	return answer
}

func (p *peer) call(method string, params any) reply {
	p.t.Helper()
	select {
	case r := <-p.ask(method, params):
		return r
	case <-time.After(patience):
		p.t.Fatalf("%s is not answered", method)
		return reply{}
	}
}

// hello is the handshake of 2025.
func (p *peer) hello() reply {
	p.t.Helper()
	r := p.call("initialize", object{"protocolVersion": "2025-11-25", "capabilities": object{}, "clientInfo": object{"name": "test", "version": "1"}})
	p.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return r
}

// result is the answer of a tool.
type result struct {
	Content           []struct{ Type, Text, Data, MimeType string }
	StructuredContent json.RawMessage
	IsError           bool
}

// tool calls a tool.
func (p *peer) tool(name string, args object) result {
	p.t.Helper()
	return p.read1(p.call("tools/call", object{"name": name, "arguments": args}))
}

func (p *peer) read1(r reply) (out result) {
	p.t.Helper()
	if r.Error != nil {
		p.t.Fatalf("a call failed: %+v", r.Error)
	}
	if err := json.Unmarshal(r.Result, &out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

// polled are the events of a poll.
type polledEvents struct {
	Events []struct {
		Cursor      int64
		SessionKey  string
		MessageID   string
		Text, Trust string
		Quote       *quote
		Context     []said
		User        *user
		Attachments []attachment
	}
	NextCursor int64 `json:"next_cursor"`
	Waiting    int
}

func (p *peer) poll(args object) (out polledEvents) {
	p.t.Helper()
	r := p.tool("events_poll", args)
	if r.IsError {
		p.t.Fatalf("events_poll: %s", r.Content[0].Text)
	}
	if err := json.Unmarshal(r.StructuredContent, &out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (out polledEvents) texts() (all []string) {
	for _, e := range out.Events {
		all = append(all, e.Text)
	}
	return all
}

// pushed waits for so many notifications of a method.
func (p *peer) pushed(method string, n int) (all []note) {
	p.t.Helper()
	late := time.After(patience)
	for {
		p.mu.Lock()
		woken := p.woken
		all = nil
		for _, one := range p.notes {
			if one.Method == method {
				all = append(all, one)
			}
		}
		p.mu.Unlock()
		if len(all) >= n {
			return all
		}
		select {
		case <-woken:
		case <-late:
			p.t.Fatalf("%d notifications %s, want %d", len(all), method, n)
		}
	}
}

// running is a server in this process and the client that talks to it.
type running struct {
	*peer
	t     testing.TB
	ended chan error
}

// start starts a server. dir is that of its spool.
func start(t testing.TB, c *connector, dir string, change func(*Options)) *running {
	t.Helper()
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	o := Options{
		Credential: credentialFor(c.url), Dir: dir, History: 200, Claude: true, Mend: "run gateway rotate", Version: "test",
		In: toServer, Out: fromServer, Log: slog.New(slog.DiscardHandler), Pause: time.Millisecond,
	}
	if testing.Verbose() {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if change != nil {
		change(&o)
	}
	r := &running{newPeer(t, in, out), t, make(chan error, 1)}
	s := New(o)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { r.ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		r.stop()
		_ = fromServer.Close()
	})
	return r
}

// stop ends the client's side, and waits for the server.
func (r *running) stop() {
	r.t.Helper()
	_ = r.in.Close()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Error(err)
		}
		r.ended <- nil
	case <-time.After(patience):
		r.t.Fatal("the server does not end")
	}
}

func spoolDir(t *testing.T) string { return filepath.Join(t.TempDir(), "spool") }
