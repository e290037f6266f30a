package limits

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
func door(t *testing.T, h http.HandlerFunc, trusted func(netip.Addr) bool) (l queued, stop func()) {
	t.Helper()
	l = newQueued()
	c := NewListener(l, trusted, func() {})
	srv := &http.Server{Handler: h, ConnContext: ConnContext, ReadHeaderTimeout: headerTime}
	srv.SetKeepAlivesEnabled(false)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(c) }()
	return l, func() {
		_ = srv.Close()
		<-served
		synctest.Wait() // for what it served
		c.share.mu.Lock()
		defer c.share.mu.Unlock()
		if c.share.held != 0 || len(c.share.by) != 0 {
			t.Errorf("at the end %d connections of %d addresses are counted, want none", c.share.held, len(c.share.by))
		}
	}
}

const headerTime = 10 * time.Second

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

// TestAThousandSilentOnesDelayNobody: who comes from elsewhere is served at once,
// who comes from the same address when the time of those before is over.
func TestAThousandSilentOnesDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := door(t, hello, nil)
		defer stop()
		for range 1000 {
			near, _ := l.dial(bad)
			defer func() { _ = near.Close() }()
		}
		ask := func(from string) (string, error) {
			near, _ := l.dial(from)
			defer func() { _ = near.Close() }()
			return get(near, "")
		}
		start := time.Now()
		if said, err := ask(good); said != "hello" || time.Since(start) != 0 {
			t.Errorf("from elsewhere: %q, %v after %s, want hello at once", said, err, time.Since(start))
		}
		if said, err := ask(bad); err == nil {
			t.Errorf("from the same address: %q, want it turned away", said)
		}
		time.Sleep(headerTime)
		synctest.Wait()
		if said, err := ask(bad); said != "hello" {
			t.Errorf("from the same address, %s later: %q, %v, want hello", headerTime, said, err)
		}
	})
}

// TestWhoHasHisShareIsTurnedAway at once, and so is who comes when all have theirs together.
func TestWhoHasHisShareIsTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, stop := door(t, hello, nil)
		defer stop()
		var all []net.Conn
		for i := range MaxStrangers + 1 {
			near, _ := l.dial(fmt.Sprintf("10.0.%d.1", i/MaxOfAddress))
			defer func() { _ = near.Close() }()
			all = append(all, near)
		}
		more, _ := l.dial("10.0.0.1")
		synctest.Wait()
		for i, near := range all {
			if want := i < MaxStrangers; here(near) != want {
				t.Errorf("connection %d is there: %t, want %t", i, !want, want)
			}
		}
		if here(more) {
			t.Error("one more of an address that has its share is there")
		}
	})
}

// TestWhoHasVerifiedIsNoStranger: neither while it is served nor after it took its connection over does
// it take a place from others of its address; one that proved nothing does, until it is closed.
func TestWhoHasVerifiedIsNoStranger(t *testing.T) {
	for name, tc := range map[string]struct{ verifies, hijacks bool }{
		"strangers":                        {false, false},
		"such as have verified":            {true, false},
		"strangers that took theirs over":  {false, true},
		"such as verified and took theirs": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				l, stop := door(t, func(w http.ResponseWriter, r *http.Request) {
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
				var all []net.Conn
				for range MaxOfAddress {
					near, _ := l.dial(bad)
					all = append(all, near)
					if _, err := io.WriteString(near, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				more, _ := l.dial(bad)
				defer func() { _ = more.Close() }()
				synctest.Wait()
				if here(more) != tc.verifies {
					t.Errorf("there is room for one more: %t, want %t", !tc.verifies, tc.verifies)
				}
				close(release)
				for _, near := range all {
					_ = near.Close()
				}
				synctest.Wait()
				after, _ := l.dial(bad)
				defer func() { _ = after.Close() }()
				synctest.Wait()
				if !here(after) {
					t.Error("who has gone is counted")
				}
			})
		})
	}
}

// TestAProxyDialsForMany: it has all the room there is.
func TestAProxyDialsForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const proxy = "127.0.0.1"
		l, stop := door(t, hello, func(a netip.Addr) bool { return a.String() == proxy })
		defer stop()
		for range MaxStrangers - 1 {
			near, _ := l.dial(proxy)
			defer func() { _ = near.Close() }()
		}
		near, _ := l.dial(proxy)
		defer func() { _ = near.Close() }()
		if said, err := get(near, ""); said != "hello" {
			t.Errorf("answered %q, %v, want hello", said, err)
		}
	})
}

// TestWhatANodeHandsThrough counts for its caller, in the place of the node, until the caller has proved to be somebody; a
// proxy's is bounded by the bound of all alone.
func TestWhatANodeHandsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const node, proxy = "10.0.0.6", "10.0.0.9"
		proved := 0
		wait := make(chan struct{})
		l, stop := door(t, func(w http.ResponseWriter, r *http.Request) {
			if !Of(r.Context(), netip.MustParseAddr(r.Header.Get("For")), func() { proved++ }) {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			if r.Header.Get("Known") != "" {
				Verified(r.Context())
			}
			_, _ = io.WriteString(w, "hello")
			_ = http.NewResponseController(w).Flush()
			<-wait
		}, func(a netip.Addr) bool { return a == netip.MustParseAddr(proxy) })
		defer stop()
		defer close(wait)
		ask := func(of, more string) string {
			near, _ := l.dial(node)
			t.Cleanup(func() { _ = near.Close() })
			if _, err := io.WriteString(near, "GET / HTTP/1.1\r\nHost: x\r\nFor: "+of+"\r\n"+more+"\r\n"); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(near), nil)
			if err != nil {
				t.Fatal(err)
			}
			return resp.Status[:3]
		}
		for n := range MaxOfAddress {
			if got := ask(bad, ""); got != "200" {
				t.Fatalf("caller %d: %s", n, got)
			}
		}
		for of, want := range map[string]string{bad: "503", good: "200", proxy: "200"} {
			if got := ask(of, ""); got != want {
				t.Errorf("one more of %s: %s, want %s", of, got, want)
			}
		}
		for range MaxOfAddress + 1 {
			if got := ask("192.0.2.9", "Known: yes\r\n"); got != "200" {
				t.Fatalf("somebody: %s", got)
			}
		}
		if proved != MaxOfAddress+1 {
			t.Errorf("%d have proved to be somebody, want %d", proved, MaxOfAddress+1)
		}
	})
}
