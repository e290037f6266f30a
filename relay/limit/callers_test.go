package limit

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// queued is a listener whose connections come from a test. Who dials waits until it is taken.
type queued struct {
	conns chan net.Conn
	end   chan struct{}
	once  *sync.Once
}

func newQueued() queued { return queued{make(chan net.Conn), make(chan struct{}), new(sync.Once)} }

func (l queued) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.end:
		return nil, net.ErrClosed
	}
}
func (l queued) Close() error { l.once.Do(func() { close(l.end) }); return nil }
func (queued) Addr() net.Addr { return &net.TCPAddr{} }

// dialled is one end of a pipe, with an address.
type dialled struct {
	net.Conn
	from net.Addr
}

func (d *dialled) RemoteAddr() net.Addr { return d.from }

// dial connects from an address and returns the caller's end and the server's.
func (l queued) dial(from string) (near net.Conn, far *dialled) {
	near, there := net.Pipe()
	far = &dialled{there, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 1))}
	l.conns <- far
	return near, far
}

// door serves h on a listener for as long as the test's bubble lives. stop ends it.
func door(t *testing.T, h http.HandlerFunc, from func(*http.Request) netip.Addr) (l queued, c *Callers, stop func()) {
	t.Helper()
	l = newQueued()
	c = NewCallers(l, func() {})
	srv := &http.Server{Handler: h}
	srv.SetKeepAlivesEnabled(false)
	c.Attach(srv, from)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(c) }()
	return l, c, func() {
		_ = srv.Close()
		<-served
		synctest.Wait() // for what it served
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.by) != 0 || len(c.held) != 0 || c.waiting != 0 {
			t.Errorf("at the end %d callers of %d addresses are counted and %d wait, want none", len(c.by), len(c.held), c.waiting)
		}
	}
}

// get asks for / and returns the answer's body.
func get(conn net.Conn, header string) (string, error) {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n"+header+"\r\n"); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// here reports whether a connection is open: nothing is written to one that says nothing.
func here(near net.Conn) bool {
	_ = near.SetReadDeadline(time.Now())
	_, err := near.Read(make([]byte, 1))
	return err != io.EOF
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

const bad, good = "198.51.100.66", "203.0.113.7"

// TestAThousandSilentOnesDelayNobody (issue 9, point 7): who comes from elsewhere is served at once,
// who comes from the same address after those before it.
func TestAThousandSilentOnesDelayNobody(t *testing.T) {
	for from, within := range map[string]time.Duration{good: 0, bad: (1000 - serveBurst + 1) * serveEvery} {
		t.Run(from, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _, stop := door(t, hello, nil)
				defer stop()
				for range 1000 {
					near, _ := l.dial(bad)
					defer func() { _ = near.Close() }()
				}
				start := time.Now()
				near, _ := l.dial(from)
				defer func() { _ = near.Close() }()
				if said, err := get(near, ""); said != "hello" || time.Since(start) != within {
					t.Errorf("answered %q, %v after %s, want hello after %s", said, err, time.Since(start), within)
				}
			})
		})
	}
}

// TestTheGreediestGoesFirst, and of its connections the oldest.
func TestTheGreediestGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, stop := door(t, hello, nil)
		defer stop()
		single, _ := l.dial(good)
		defer func() { _ = single.Close() }()
		var many []net.Conn
		for range MaxCallers + 2 {
			time.Sleep(serveEvery)
			near, _ := l.dial(bad)
			defer func() { _ = near.Close() }()
			many = append(many, near)
		}
		synctest.Wait()
		for i, near := range many {
			if want := i >= 3; here(near) != want {
				t.Errorf("connection %d of the greediest is there: %t, want %t", i, !want, want)
			}
		}
		if !here(single) {
			t.Error("the oldest connection went, of one who has no other")
		}
	})
}

// TestManyAddressesWithOneEach: nobody is greedy, so the oldest goes.
func TestManyAddressesWithOneEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, stop := door(t, hello, nil)
		defer stop()
		var all []net.Conn
		for i := range MaxCallers + 2 {
			near, _ := l.dial(fmt.Sprintf("10.0.%d.%d", i/256, i%256))
			defer func() { _ = near.Close() }()
			all = append(all, near)
		}
		synctest.Wait()
		for i, near := range all {
			if want := i >= 2; here(near) != want {
				t.Errorf("connection %d is there: %t, want %t", i, !want, want)
			}
		}
	})
}

// flood dials from an address, in its turn, once more than all others may stay.
func (l queued) flood(from string) (end func()) {
	var all []net.Conn
	for range MaxCallers + 1 {
		time.Sleep(serveEvery)
		near, _ := l.dial(from)
		all = append(all, near)
	}
	synctest.Wait()
	return func() {
		for _, near := range all {
			_ = near.Close()
		}
	}
}

// TestWhoHasVerifiedStays, though its address is the greediest and it is the oldest; also after it
// took the connection over.
func TestWhoHasVerifiedStays(t *testing.T) {
	for name, tc := range map[string]struct{ verifies, hijacks, stays bool }{
		"a stranger":                          {false, false, false},
		"one who has verified":                {true, false, true},
		"a stranger that took its connection": {false, true, false},
		"one who verified and took its own":   {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				l, c, stop := door(t, func(w http.ResponseWriter, r *http.Request) {
					if tc.verifies {
						Verified(r.Context())
					}
					if tc.hijacks {
						conn, _, err := http.NewResponseController(w).Hijack()
						if err != nil {
							t.Error(err)
							return
						}
						defer func() { _ = conn.Close() }()
					}
					<-release
				}, nil)
				defer stop()
				near, far := l.dial(bad)
				defer func() { _ = near.Close() }()
				if _, err := io.WriteString(near, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if _, stranger := c.by[far]; stranger == tc.verifies {
					t.Errorf("counts as a stranger's: %t", stranger)
				}
				defer l.flood(bad)()
				if here(near) != tc.stays {
					t.Errorf("stays: %t, want %t", !tc.stays, tc.stays)
				}
				close(release)
				synctest.Wait()
				if _, counted := c.by[far]; counted {
					t.Error("counted after its end")
				}
			})
		})
	}
}

// TestForwardedAddressesAreTheCallers: behind a proxy the greedy one is found, once it has said
// who it is.
func TestForwardedAddressesAreTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const proxy = "127.0.0.1"
		release := make(chan struct{})
		l, _, stop := door(t, func(http.ResponseWriter, *http.Request) { <-release }, func(r *http.Request) netip.Addr {
			return netip.MustParseAddr(r.Header.Get("X-Forwarded-For"))
		})
		defer stop()
		defer close(release)
		ask := func(from string) net.Conn {
			time.Sleep(serveEvery)
			near, _ := l.dial(proxy)
			if _, err := io.WriteString(near, "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: "+from+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return near
		}
		single := ask(good)
		defer func() { _ = single.Close() }()
		first := ask(bad)
		defer func() { _ = first.Close() }()
		for range MaxCallers {
			near := ask(bad)
			defer func() { _ = near.Close() }()
		}
		if !here(single) || here(first) {
			t.Errorf("the single one stays: %t, the first of the greedy one: %t, want true and false", here(single), here(first))
		}
	})
}

// TestWaitingIsBounded: who would wait longer than maxWait, or as one too many, goes at once.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c, stop := door(t, hello, nil)
		defer stop()
		for _, from := range []string{bad, "198.51.100.67"} {
			for range serveBurst + 2*maxWaiting {
				near, _ := l.dial(from)
				defer func() { _ = near.Close() }()
			}
		}
		synctest.Wait()
		c.mu.Lock()
		waiting := c.waiting
		c.mu.Unlock()
		if waiting != maxWaiting {
			t.Errorf("%d wait, want %d", waiting, maxWaiting)
		}
		near, _ := l.dial(bad)
		synctest.Wait()
		if here(near) {
			t.Error("one too many waits")
		}
		near, _ = l.dial(good)
		defer func() { _ = near.Close() }()
		synctest.Wait()
		if !here(near) {
			t.Error("who need not wait has to go")
		}
	})
}

// TestCloseEndsWhoWaits: nothing of what was taken is left open.
func TestCloseEndsWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newQueued()
		c := NewCallers(l, func() {})
		for range serveBurst {
			near, _ := l.dial(bad)
			defer func() { _ = near.Close() }()
			if conn, err := c.Accept(); err != nil {
				t.Fatal(err)
			} else {
				defer func() { _ = conn.Close() }()
			}
		}
		var all []net.Conn
		for range 10 {
			near, _ := l.dial(bad)
			all = append(all, near)
		}
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for i, near := range all {
			if here(near) {
				t.Errorf("connection %d is open", i)
			}
		}
		if _, err := c.Accept(); err != net.ErrClosed {
			t.Errorf("Accept after Close: %v, want %v", err, net.ErrClosed)
		}
	})
}
