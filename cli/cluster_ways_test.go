package cli_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

// way is what lies between a node and a server of PostgreSQL, or between two of those. What is held back on it is not lost, as
// in a network that is cut and comes back: it arrives when the way opens, however late.
type way struct {
	port int

	mu      sync.Mutex // guards the fields below
	to      int
	held    [2]bool // to the server, and back
	delay   time.Duration
	changed chan struct{}
	conns   map[net.Conn]struct{}
}

const forth, back = 0, 1

func newWay(t *testing.T, to int) *way {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{port: l.Addr().(*net.TCPAddr).Port, to: to, changed: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { w.carry(in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.set(func() { w.held, w.delay = [2]bool{}, 0 })
		w.breaks()
		wg.Wait()
	})
	return w
}

// set changes the way.
func (w *way) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *way) holds(forth, back bool) { w.set(func() { w.held = [2]bool{forth, back} }) }

// breaks ends all connections. What was held back on them is lost.
func (w *way) breaks() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}

// carry carries one connection.
func (w *way) carry(in net.Conn) {
	w.mu.Lock()
	w.conns[in] = struct{}{}
	w.mu.Unlock()
	defer func() {
		_ = in.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.conns, in)
	}()
	w.open(forth)
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	out, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(to)))
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	pass := func(from, to net.Conn, which int) {
		buf := make([]byte, 16<<10)
		for {
			n, err := from.Read(buf)
			w.open(which)
			if n > 0 {
				if _, err := to.Write(buf[:n]); err != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		_ = from.Close()
		_ = to.Close()
	}
	wg.Go(func() { pass(in, out, forth) })
	wg.Go(func() { pass(out, in, back) })
	wg.Wait()
}

// open waits until something may pass.
func (w *way) open(which int) {
	for {
		w.mu.Lock()
		held, delay, changed := w.held[which], w.delay, w.changed
		w.mu.Unlock()
		if !held {
			if delay > 0 {
				<-time.After(delay)
			}
			return
		}
		<-changed
	}
}

// balancer is what stands in front of the nodes: it asks each whether it is ready, and leads connections there.
type balancer struct {
	port  int
	nodes []*node
	calm  atomic.Bool // whoever is slow to answer is left alone

	mu      sync.Mutex // guards the fields below
	ready   map[*node]map[net.Conn]struct{}
	changed chan struct{}
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	port, release, err := platformtest.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return &balancer{port: port, ready: make(map[*node]map[net.Conn]struct{}), changed: make(chan struct{})}
}

// run works until ctx ends.
func (b *balancer) run(ctx context.Context, t *testing.T) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)))
	if err != nil {
		t.Error(err)
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for _, n := range b.nodes {
		wg.Go(func() { b.asks(ctx, n) })
	}
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() { b.carry(ctx, in) })
	}
}

// asks asks n whether it is ready, again and again. Its connections end when it is not.
func (b *balancer) asks(ctx context.Context, n *node) {
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		resp, err := client.Get("http://" + n.addr + "/readyz")
		ok := err == nil && resp.StatusCode == http.StatusOK
		if err == nil {
			_ = resp.Body.Close()
		}
		b.mu.Lock()
		switch was := b.ready[n]; {
		case ok && was == nil:
			b.ready[n] = make(map[net.Conn]struct{})
			close(b.changed)
			b.changed = make(chan struct{})
		case !ok && was != nil && !b.calm.Load():
			delete(b.ready, n)
			for c := range was {
				_ = c.Close()
			}
		}
		b.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// carry leads a connection to a node that is ready, and waits for one if there is none.
func (b *balancer) carry(ctx context.Context, in net.Conn) {
	defer in.Close()
	defer context.AfterFunc(ctx, func() { _ = in.Close() })()
	for ctx.Err() == nil {
		var to *node
		b.mu.Lock()
		for n := range b.ready {
			to = n
		}
		changed := b.changed
		if to != nil {
			b.ready[to][in] = struct{}{}
		}
		b.mu.Unlock()
		if to == nil {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		b.between(in, to)
		b.mu.Lock()
		delete(b.ready[to], in)
		b.mu.Unlock()
		return
	}
}

func (b *balancer) between(in net.Conn, to *node) {
	out, err := net.Dial("tcp", to.addr)
	if err != nil {
		return
	}
	defer out.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
	_ = in.Close()
	<-ended
}

// callers books which process called the network when: each has an address of it to itself.
type callers struct {
	bot *botAPI
	url string

	mu    sync.Mutex // guards the fields below
	order []string   // processes that had the network do something, in the order of their first such call
	late  []lateCall // such calls of one that came after the first of a later one
}

type lateCall struct {
	run, method string
	after       string // the process that called since
	at          time.Time
}

// leads notes that a process says that it leads; it may have led before.
func (c *callers) leads(run string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order = slices.DeleteFunc(c.order, func(o string) bool { return o == run })
	// What it says is read a moment after it is said.
	c.late = slices.DeleteFunc(c.late, func(l lateCall) bool { return l.run == run && time.Since(l.at) < time.Second })
}

// serve answers as the bot's network does. Everything but a question has it do something.
func (c *callers) serve(w http.ResponseWriter, r *http.Request) {
	run, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	r.URL.Path = "/" + rest
	method := rest[strings.LastIndexByte(rest, '/')+1:]
	c.mu.Lock()
	switch at := slices.Index(c.order, run); {
	case strings.HasPrefix(rest, "file/") || strings.HasPrefix(method, "get"):
	case at < 0:
		c.order = append(c.order, run)
	case at < len(c.order)-1:
		c.late = append(c.late, lateCall{run, method, c.order[len(c.order)-1], time.Now()})
	}
	c.mu.Unlock()
	c.bot.serve(w, r)
}
