package server

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRemote(t *testing.T) {
	s := &Server{proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("fe80::/64")}}
	for name, tc := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"no proxy":                            {"192.0.2.7:4000", nil, "192.0.2.7"},
		"a stranger's header does not count":  {"192.0.2.7:4000", []string{"198.51.100.1"}, "192.0.2.7"},
		"one proxy":                           {"127.0.0.1:4000", []string{"198.51.100.1"}, "198.51.100.1"},
		"the nearest foreign hop counts":      {"127.0.0.1:4000", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		"a chain of proxies":                  {"127.0.0.1:4000", []string{"198.51.100.1, 10.0.0.1"}, "198.51.100.1"},
		"several headers are one list":        {"127.0.0.1:4000", []string{"198.51.100.1", "10.0.0.1"}, "198.51.100.1"},
		"garbage stops the walk":              {"127.0.0.1:4000", []string{"198.51.100.1, x"}, "127.0.0.1"},
		"a proxy on the link":                 {"[fe80::1%eth0]:4000", []string{"198.51.100.1"}, "198.51.100.1"},
		"a proxy that writes the port":        {"127.0.0.1:4000", []string{"203.0.113.9:99, 198.51.100.1:4711"}, "198.51.100.1"},
		"an IPv6 address in brackets":         {"127.0.0.1:4000", []string{"[2001:db8::7]"}, "2001:db8::7"},
		"brackets and port":                   {"127.0.0.1:4000", []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		"an IPv4 address in IPv6 is the same": {"[::ffff:127.0.0.1]:4000", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		"a proxy that forwards nothing":       {"127.0.0.1:4000", nil, "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/relay", nil)
			r.RemoteAddr = tc.peer
			for _, f := range tc.forwarded {
				r.Header.Add("X-Forwarded-For", f)
			}
			if got := s.remote(r).String(); got != tc.want {
				t.Errorf("remote = %s, want %s", got, tc.want)
			}
		})
	}
}

// oneConn is a listener with one connection.
type oneConn chan net.Conn

func (l oneConn) Accept() (net.Conn, error) {
	c, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (oneConn) Close() error   { return nil }
func (oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func TestAnswersThatNobodyReadsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, nil, Options{Log: slog.New(slog.DiscardHandler)})
		srv, l := s.http(s.routes(t.Context(), t.Context())), make(oneConn, 1)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		near, far := net.Pipe()
		l <- far
		if _, err := io.WriteString(near, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(readTime + time.Second)
		if b, err := io.ReadAll(near); len(b) > 0 || err != nil {
			t.Errorf("a minute later: %q, %v; want the connection closed", b, err)
		}
		close(l)
		_ = srv.Close()
		<-served
	})
}

// TestPanicsAreSaid: at a level that people see, and without what was sent.
func TestPanicsAreSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		value any
		want  string
	}{
		"a value that quotes": {"the body hush", "panic=string"},
		"a runtime error":     {nil, "index out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			s := New(nil, nil, Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
			h := s.loud(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				if tc.value == nil {
					_ = []int{}[len(text.String())]
				}
				panic(tc.value)
			}))
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("ended with %v, want ErrAbortHandler", p)
				}
				if got := text.String(); !strings.Contains(got, tc.want) || strings.Contains(got, "hush") || !strings.Contains(got, "level=ERROR") {
					t.Errorf("log %q, want an error with %q", got, tc.want)
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/relay/identity/hush", nil))
		})
	}
}
