package hub

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

var measureHostile = flag.Duration("hostile.measure", 0, "measure the neighbours of each hostile gateway for that long, and print a table")

// hostileFrame is a WebSocket frame, masked with zeros.
func hostileFrame(first byte, payload string) []byte {
	head := []byte{first}
	switch n := len(payload); {
	case n < 126:
		head = append(head, 0x80|byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 0xfe), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 0xff), uint64(n))
	}
	return append(append(head, 0, 0, 0, 0), payload...)
}

func hostileMessage(line string) []byte { return hostileFrame(0x81, line) }

const hostileUpgrade = "GET /?as=evil HTTP/1.1\r\nHost: connector\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

const hostileHello = `{"type":"hello","platform":"loopback","botId":"` + local.Handle + `"}`

// hostile gateways by name. Each is what one does with its connection until that ends; it is
// started again then, as long as the measurement lasts.
func hostiles() map[string]func(ctx context.Context, c net.Conn) {
	// pour writes b for ever, with a pause in between, and reads what comes.
	pour := func(pause time.Duration, start string, b []byte) func(context.Context, net.Conn) {
		return func(ctx context.Context, c net.Conn) {
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() { _, _ = io.Copy(io.Discard, c) })
			if _, err := c.Write([]byte(start)); err != nil {
				return
			}
			for backoff.Pause(ctx, pause) {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}
	}
	hello := string(hostileMessage(hostileHello))
	mixed := slices.Concat(
		hostileMessage(`{"type":"outbound","requestId":"1","action":{"op":"send","chat_id":"@eve","content":"x"}}`),
		hostileMessage(`{"type":"interrupt","session_key":"agent:main:loopback:dm:@u0"}`),
		hostileMessage(`{"type":"going_idle"}`), hostileMessage(hostileHello), hostileMessage(`{"type":"presence"}`),
	)
	return map[string]func(context.Context, net.Conn){
		"never reads": func(ctx context.Context, c net.Conn) {
			_, _ = c.Write([]byte(hello))
			backoff.Pause(ctx, time.Hour)
		},
		"reads a byte a second": func(ctx context.Context, c net.Conn) {
			_, _ = c.Write([]byte(hello))
			for b := make([]byte, 1); backoff.Pause(ctx, time.Second); {
				if _, err := c.Read(b); err != nil {
					return
				}
			}
		},
		"writes a byte a second":    pour(time.Second, hello+string(hostileMessage(strings.Repeat("x", 100))[:10]), []byte("x")),
		"acks what it was not sent": pour(0, hello, hostileMessage(`{"type":"inbound_ack","bufferId":"1-1"}`)),
		"floods every frame":        pour(0, hello, mixed),
		"floods requests":           pour(0, hello, hostileMessage(`{"type":"outbound","requestId":"1","action":{"op":"send","chat_id":"@eve","content":"x"}}`)),
		"1 MiB of garbage a second": pour(time.Second, hello, hostileMessage(strings.Repeat("x", 1<<20-1)+"\n")),
		"garbage without a pause":   pour(0, hello, hostileMessage(strings.Repeat("x", 1<<20-1)+"\n")),
		"never says hello":          pour(time.Hour, "", nil),
		"dials all the time":        func(context.Context, net.Conn) {},
		"hundreds of sockets": func(ctx context.Context, c net.Conn) {
			for range 300 {
				more, err := net.Dial("tcp", c.RemoteAddr().String())
				if err != nil {
					return
				}
				defer more.Close()
				_, _ = io.WriteString(more, hostileUpgrade)
			}
			backoff.Pause(ctx, time.Hour)
		},
		"floods pings":   pour(0, hello, slices.Repeat(hostileFrame(0x89, ""), 100)),
		"tiny fragments": pour(0, hello+string(hostileFrame(0x01, "x")), slices.Repeat(hostileFrame(0x00, ""), 100)),
	}
}

// torment keeps one hostile gateway going until ctx ends, and returns how often it dialled.
func (r *rig) torment(ctx context.Context, do func(context.Context, net.Conn)) (dials int) {
	addr := r.door.Listener.Addr().String()
	for ctx.Err() == nil {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			r.t.Error(err)
			return dials
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		_, _ = io.WriteString(c, hostileUpgrade)
		if res, err := http.ReadResponse(bufio.NewReaderSize(c, 512), nil); err == nil && res.StatusCode == http.StatusSwitchingProtocols {
			dials++
			do(ctx, c)
		}
		stop()
		_ = c.Close()
		backoff.Pause(ctx, time.Millisecond)
	}
	return dials
}

// TestHostileNeighbours runs one hostile gateway of each kind beside healthy ones: nothing they
// are owed is lost, late beyond patience, or out of order. With -hostile.measure it prints what
// it costs them. How hostile gateways end is TestHostileGatewaysAreClosed in relay/session.
func TestHostileNeighbours(t *testing.T) {
	t.Parallel()
	kinds := hostiles()
	names := []string{""}
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names) // the quiet run first
	for _, name := range names {
		t.Run("beside "+name, func(t *testing.T) {
			besideHostile(t, newRig(t), name, kinds[name])
		})
	}
}

// besideHostile has neighbours talk while one gateway does what it does; a nil do is none.
func besideHostile(t *testing.T, r *rig, name string, do func(context.Context, net.Conn)) {
	t.Helper()
	r.enroll("evil", "eve")
	n := newNeighbours(r, 4)
	events, every := 40, time.Millisecond
	if *measureHostile > 0 {
		events, every = int(*measureHostile/(10*time.Millisecond)), 10*time.Millisecond
	}
	before := settledHeap()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	dials := 0
	if do != nil {
		wg.Go(func() { dials = r.torment(ctx, do) })
	}
	peak := n.talk(events, every)
	after := settledHeap() // the hostile one still connected
	stop()
	wg.Wait()
	if *measureHostile > 0 {
		p50, p99 := n.percentiles()
		fmt.Printf("%-28s p50 %6s  p99 %6s  heap %+6.1f MB, at its peak %+6.1f MB  %d dials\n", name, p50, p99,
			mb(after)-mb(before), mb(peak)-mb(before), dials)
	}
}

func mb(n uint64) float64 { return float64(n) / (1 << 20) }

// settledHeap is what is alive on the heap.
func settledHeap() uint64 {
	runtime.GC()
	runtime.GC()
	return heapNow()
}

func heapNow() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// neighbours are healthy gateways, one person each.
type neighbours struct {
	r     *rig
	all   []*gateway
	done  sync.WaitGroup
	mu    sync.Mutex // guards took
	took  []time.Duration
	users []relay.UserID
}

func newNeighbours(r *rig, count int) *neighbours {
	n := &neighbours{r: r}
	for i := range count {
		name := fmt.Sprint("g", i)
		n.users = append(n.users, relay.UserID(fmt.Sprint("u", i)))
		r.enroll(name, n.users[i])
		n.all = append(n.all, r.dial(name))
	}
	return n
}

// talk sends events to the neighbours in turn, one every so often, and returns when all were
// delivered in order. peak is the largest heap seen, garbage included.
func (n *neighbours) talk(events int, every time.Duration) (peak uint64) {
	for i, g := range n.all {
		n.done.Go(func() {
			for want := i; want < events; {
				f, err := g.tryRead()
				for _, is := f.(wire.InterruptInbound); is; _, is = f.(wire.InterruptInbound) {
					f, err = g.tryRead() // a gateway of the tenant may ask for those
				}
				in, ok := f.(wire.Inbound)
				if err != nil || !ok {
					n.r.t.Errorf("neighbour %d: %T, %v, want event %d", i, f, err, want)
					return
				}
				for said := range strings.SplitSeq(in.Event.Text, "\n") { // of a slow machine, what gathered is one event
					no, at, _ := strings.Cut(said, "@")
					sent, _ := strconv.ParseInt(at, 10, 64)
					if no != fmt.Sprint(want) {
						n.r.t.Errorf("neighbour %d: event %s, want %d", i, no, want)
					}
					n.mu.Lock()
					n.took = append(n.took, time.Duration(time.Now().UnixNano()-sent))
					n.mu.Unlock()
					want += len(n.all)
				}
				g.send(wire.InboundAck{Buffer: in.Buffer})
			}
		})
	}
	in := n.r.hub.in.Inbox(n.r.bot)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range events {
		<-tick.C
		if i%10 == 0 {
			peak = max(peak, heapNow())
		}
		u := n.users[i%len(n.users)]
		ev := benchEvent(n.r, i)
		ev.Text = fmt.Sprintf("%d@%d", i, time.Now().UnixNano())
		ev.Source.ChatID, ev.Source.UserID = relay.ChatID("@"+u), u
		must.Succeed(n.r.t, in.Accept(n.r.t.Context(), platforms.Batch{Events: []relay.Event{ev}}))
	}
	n.done.Wait()
	return peak
}

func (n *neighbours) percentiles() (p50, p99 time.Duration) {
	slices.Sort(n.took)
	at := func(p int) time.Duration { return n.took[len(n.took)*p/100].Round(10 * time.Microsecond) }
	return at(50), at(99)
}

func TestWhatChangesNothingWritesNothing(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	g := r.dial("home")
	asleep := func() {
		g.send(wire.GoingIdle{})
		if f := g.read(); f != (wire.GoingIdleAck{}) {
			t.Fatalf("frame = %T, want going_idle_ack", f)
		}
	}
	hello := func() {
		g.send(wire.Hello{Platform: r.bot.Platform, BotID: r.bot.ID})
		if f, ok := g.read().(wire.Descriptor); !ok {
			t.Fatalf("frame = %T, want a descriptor", f)
		}
	}
	for name, do := range map[string]func(){"a hello": hello, "going_idle": asleep} {
		do()
		before := r.db.Stats().Commits
		for range 5 {
			do()
		}
		if got := r.db.Stats().Commits - before; got != 0 {
			t.Errorf("%s that changes nothing: %d commits in 5, want none", name, got)
		}
	}
}

func TestManifestsOfUnknownNetworksAreNotKept(t *testing.T) {
	r := newRig(t)
	r.enroll("home", "ann")
	g := r.dialOnly("home")
	g.send(wire.Hello{Platform: "nowhere", Manifest: []json.RawMessage{json.RawMessage(`{"name":"x"}`)}})
	g.read()
	if all, err := r.db.Commands.List(t.Context(), "nowhere"); err != nil || len(all) != 0 {
		t.Errorf("manifests = %v, %v, want none", all, err)
	}
}
