package socket_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms/socket"
)

// network is a server of which each connection is served by to.
func network(t *testing.T, to func(context.Context, *websocket.Conn)) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := websocket.Accept(w, r, nil); err == nil {
			to(r.Context(), c)
			_ = c.CloseNow()
		}
	}))
	t.Cleanup(s.Close)
	return "ws" + strings.TrimPrefix(s.URL, "http") + "/?ticket=secret"
}

// reader keeps what came, and ends the connection after last.
type reader struct {
	patience time.Duration
	last     string
	took     []string
}

var errEnough = errors.New("enough")

func (r *reader) Allowance() time.Duration { return r.patience }

func (r *reader) Take(_ context.Context, raw []byte, whole bool) error {
	if !whole {
		raw = append([]byte("beginning of "), raw...)
	}
	r.took = append(r.took, string(raw))
	if string(raw) == r.last {
		return errEnough
	}
	return nil
}

func dial(t *testing.T, address string) *socket.Socket {
	s, err := socket.Dial(t.Context(), address, "the test", socket.Options{
		HTTP: http.DefaultClient, Wait: time.Minute, Close: websocket.StatusNormalClosure, Whole: 8, Skipped: 1 << 20, Head: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestServe: what is too large is skipped, and what follows it is read.
func TestServe(t *testing.T) {
	s := dial(t, network(t, func(ctx context.Context, c *websocket.Conn) {
		for _, text := range []string{"one", "a message that is too large", "two"} {
			_ = c.Write(ctx, websocket.MessageText, []byte(text))
		}
		_, _, _ = c.Read(ctx)
	}))
	r := &reader{patience: time.Minute, last: "two"}
	if err := s.Serve(t.Context(), r); !errors.Is(err, errEnough) {
		t.Errorf("ended with %v", err)
	}
	if got := strings.Join(r.took, "|"); got != "one|beginning of a me|two" {
		t.Errorf("took %q", got)
	}
}

// TestSilence: a network that says nothing, and one that answers no ping, are noticed.
func TestSilence(t *testing.T) {
	mute := network(t, func(ctx context.Context, _ *websocket.Conn) { <-ctx.Done() })
	if err := dial(t, mute).Serve(t.Context(), &reader{patience: time.Millisecond}); !errors.Is(err, socket.ErrSilent) {
		t.Errorf("nothing comes: %v", err)
	}
	s := dial(t, mute)
	s.Wait = 200 * time.Millisecond
	s.Beat(time.Millisecond, nil, func(ctx context.Context, _ bool) error { return s.Ping(ctx) })
	if err := s.Serve(t.Context(), &reader{patience: time.Minute}); !errors.Is(err, socket.ErrZombie) {
		t.Errorf("no ping is answered: %v", err)
	}
}

// TestDialTellsNoAddress: it may hold a credential.
func TestDialTellsNoAddress(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	refused := gone.URL
	defer gone.Close()
	for _, address := range []string{"ws" + strings.TrimPrefix(refused, "http") + "/?ticket=secret", "ws://127.0.0.1:1/?ticket=secret"} {
		_, err := socket.Dial(t.Context(), address, "the test", socket.Options{HTTP: http.DefaultClient, Wait: time.Second})
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), "connect to the test: ") {
			t.Errorf("%v", err)
		}
	}
}
