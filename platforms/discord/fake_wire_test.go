package discord

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

// pipe is a network without sockets, for synctest. It ends with the test's bubble.
func (f *fakeDiscord) pipe(t *testing.T) http.RoundTripper {
	l := platformtest.NewPipes()
	srv := &http.Server{Handler: f, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	f.address = "http://fake.discord"
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	rt := &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return f.dial(ctx, l) },
		IdleConnTimeout: 30 * time.Second,
	}
	t.Cleanup(func() {
		rt.CloseIdleConnections()
		f.end()
		_ = srv.Close()
		wg.Wait()
		f.sockets.Wait()
	})
	return rt
}

// dial connects to the fake, unless its network is down.
func (f *fakeDiscord) dial(ctx context.Context, l *platformtest.Pipes) (net.Conn, error) {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: os.ErrDeadlineExceeded}
	}
	return l.Dial(ctx, "192.0.2.9")
}

// upgrade answers a websocket's upgrade by hand.
func upgrade(w http.ResponseWriter, r *http.Request) net.Conn {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n")
	return c
}
