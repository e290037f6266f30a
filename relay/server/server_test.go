package server

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/door"
)

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
		srv, l := s.http(s.door(t.Context(), t.Context())), make(oneConn, 1)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		near, far := net.Pipe()
		l <- far
		if _, err := io.WriteString(near, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(door.AnswerTime + time.Second)
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
		"a value that quotes":   {"the body hush", "panic=\"a string\""},
		"a runtime error":       {nil, "index out of range"},
		"a connection given up": {http.ErrAbortHandler, ""},
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
				if got := text.String(); tc.value == http.ErrAbortHandler {
					if got != "" {
						t.Errorf("log %q, want nothing", got)
					}
				} else if !strings.Contains(got, tc.want) || strings.Contains(got, "hush") || !strings.Contains(got, "level=ERROR") {
					t.Errorf("log %q, want an error with %q", got, tc.want)
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/relay/identity/hush", nil))
		})
	}
}
