package session

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
)

// benchServer serves a session per connection over TCP, and hands each out.
func benchServer(b *testing.B) (addr string, sessions <-chan *Session, stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	made := make(chan *Session)
	var running sync.WaitGroup
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := Accept(w, r)
		if err != nil {
			b.Errorf("accept: %v", err)
			return
		}
		running.Go(func() {
			h := &hub{}
			s := New(conn, Peer{Gateway: "g", Instance: "i", Tenant: "home"}, h, Options{})
			h.s = s
			made <- s
			_ = s.Run(ctx, ctx)
		})
	}))
	return srv.Listener.Addr().String(), made, func() {
		cancel()
		running.Wait()
		srv.Close()
	}
}

// rawGateway is a gateway that costs next to nothing: a socket, and a reader while it is needed.
type rawGateway struct{ net.Conn }

// dialRaw upgrades, says hello, and reads the descriptor.
func dialRaw(b *testing.B, addr string, r *bufio.Reader) rawGateway {
	b.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	r.Reset(conn)
	_, err = io.WriteString(conn, "GET /relay HTTP/1.1\r\nHost: connector\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	if err != nil {
		b.Fatal(err)
	}
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		b.Fatalf("upgrade = %v, %v", res, err)
	}
	g := rawGateway{conn}
	g.send(b, wire.Hello{Platform: "telegram", BotID: "1"})
	g.skip(b, r)
	return g
}

// send writes one small frame, masked with zeros.
func (g rawGateway) send(b *testing.B, f wire.Frame) {
	b.Helper()
	line, err := wire.Encode(f)
	if err != nil || len(line) > 125 {
		b.Fatalf("encode %d bytes: %v", len(line), err)
	}
	if _, err := g.Write(append([]byte{0x81, 0x80 | byte(len(line)), 0, 0, 0, 0}, line...)); err != nil {
		b.Fatal(err)
	}
}

// skip reads one frame of at most 64 KiB.
func (rawGateway) skip(b *testing.B, r *bufio.Reader) {
	b.Helper()
	head := make([]byte, 2, 4)
	_, err := io.ReadFull(r, head)
	n := int(head[1])
	if err == nil && n == 126 {
		_, err = io.ReadFull(r, head[2:4])
		n = int(binary.BigEndian.Uint16(head[2:4]))
	}
	if err == nil {
		_, err = r.Discard(n)
	}
	if err != nil {
		b.Fatalf("read a frame: %v", err)
	}
}

// BenchmarkPushToFrame is the time from Push to the whole frame at the other end of a TCP
// connection.
func BenchmarkPushToFrame(b *testing.B) {
	addr, sessions, stop := benchServer(b)
	defer stop()
	dialled := make(chan rawGateway)
	r := bufio.NewReader(nil)
	go func() { dialled <- dialRaw(b, addr, r) }()
	s := <-sessions
	g := <-dialled
	defer g.Close()
	b.ReportAllocs()
	for n := uint64(0); b.Loop(); n++ {
		if err := s.Push(b.Context(), event(n, 1024), nil); err != nil {
			b.Fatal(err)
		}
		g.skip(b, r)
	}
}

// BenchmarkActionToResult is the time from an action's frame to its result, with a handler that
// takes none.
func BenchmarkActionToResult(b *testing.B) {
	addr, sessions, stop := benchServer(b)
	defer stop()
	dialled := make(chan rawGateway)
	r := bufio.NewReader(nil)
	go func() { dialled <- dialRaw(b, addr, r) }()
	<-sessions
	g := <-dialled
	defer g.Close()
	b.ReportAllocs()
	for b.Loop() {
		g.send(b, wire.Outbound{Request: relay.Request{ID: "1", Action: relay.Typing{Chat: "c"}}})
		g.skip(b, r)
	}
}

// BenchmarkIdleSessions reports what a session costs that has said hello and is silent.
func BenchmarkIdleSessions(b *testing.B) {
	const sessions = 1000
	for b.Loop() {
		addr, made, stop := benchServer(b)
		before := memory()
		r := bufio.NewReader(nil)
		gateways := make([]rawGateway, 0, sessions)
		go func() {
			for range sessions {
				<-made
			}
		}()
		for range sessions {
			gateways = append(gateways, dialRaw(b, addr, r))
		}
		b.ReportMetric(float64(memory()-before)/sessions, "bytes/session")
		b.ReportMetric(float64(runtime.NumGoroutine())/sessions, "goroutines/session")
		for _, g := range gateways {
			_ = g.Close()
		}
		stop()
	}
}

// memory is what the process holds for itself, after a collection.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
