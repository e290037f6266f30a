package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/bus"
	"github.com/hermes-connector/hermes-connector/relay/delivery"
	"github.com/hermes-connector/hermes-connector/relay/session"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/store/storetest"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

// TestFlipOnTheSocket is TestFlipInEveryOrder of relay/delivery with everything real: sockets,
// sessions, hub and database. The steps of a case come in every order that makes sense; "stall"
// stops the database's writer, so that commits queue up, until "go". What a gateway reads, and
// whether its instance counts as asleep, must fit what it said.
func TestFlipOnTheSocket(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]string{
		"an event in the flip window":   "append grown going_idle ack connect",
		"the same socket wakes":         "append grown going_idle hello ack",
		"two events":                    "append append grown going_idle ack hello",
		"the socket dies":               "append grown going_idle ack cut connect",
		"the disk is slow":              "append grown stall going_idle ack go",
		"the disk is slow, and a cut":   "append grown going_idle stall cut go",
		"the disk is slow, a takeover":  "append grown stall going_idle connect go",
		"asleep before, awake behind":   "append going_idle stall hello connect go",
		"the connector stops":           "append grown going_idle ack stop connect",
		"two takeovers over a slow one": "append grown ack stall connect connect go",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := storetest.Open(t, t.TempDir(), store.Options{})
				runs := 0
				exploreOrders(long.Pick(60, 1_000_000), func(choose func(int) int) {
					runs++
					runSocketFlip(t, db, relay.InstanceID(fmt.Sprint("i", runs)), strings.Fields(steps), choose)
				})
				t.Logf("%d orders", runs)
			})
		})
	}
}

// exploreOrders runs f once for every sequence of choices it can make, depth first, at most most times.
func exploreOrders(most int, f func(choose func(int) int)) {
	var path, width []int
	for range most {
		at := 0
		f(func(options int) int {
			if at == len(path) {
				path, width = append(path, 0), append(width, 0)
			}
			width[at] = options
			at++
			return path[at-1]
		})
		path, width = path[:at], width[:at]
		for len(path) > 0 && path[len(path)-1]+1 >= width[len(path)-1] {
			path, width = path[:len(path)-1], width[:len(width)-1]
		}
		if len(path) == 0 {
			return
		}
		path[len(path)-1]++
	}
}

// socketFlip is one run of one order.
type socketFlip struct {
	t     *testing.T
	db    *store.DB
	hub   *Hub
	inst  relay.InstanceID
	stock bool // it dials as the real gateways do
	trace []string
	live  *flipLink
	stall chan struct{} // closed when the disk goes on; nil while it does
	// What ought to be.
	appended, announced int
	asleep              bool
	deaths              map[string]int
	acked               map[string]bool
	running             sync.WaitGroup
}

// flipLink is one connection of the gateway, and what it read.
type flipLink struct {
	conn *wiretest.End
	end  context.CancelCauseFunc // stops the session as the connector's stop does
	cut  func()

	mu      sync.Mutex // guards the fields below
	held    []string   // read and not acknowledged here, oldest first
	texts   []string   // of all that was read
	results int        // of actions, read
	idle    bool       // going_idle_ack was read, and no descriptor since
	dozing  bool       // going_idle was sent, and no hello since
	problem string
}

func runSocketFlip(t *testing.T, db *store.DB, inst relay.InstanceID, steps []string, choose func(int) int) {
	b := &bus.Local{}
	f := &socketFlip{
		t: t, db: db, inst: inst, deaths: make(map[string]int), acked: make(map[string]bool),
		hub: New(db, nil, b, nil, Options{}),
	}
	defer b.Subscribe(f.hub.note)()
	must.Succeed(t, db.Enroll(t.Context(), nil, store.Gateway{ID: relay.GatewayID(inst), Instance: inst, Tenant: relay.DefaultTenant, Newer: true},
		store.Instance{ID: inst, Tenant: relay.DefaultTenant}))
	f.connect()
	for {
		synctest.Wait()
		var options []string
		for _, s := range steps {
			if f.possible(s) && !slices.Contains(options, s) {
				options = append(options, s)
			}
		}
		if len(options) == 0 {
			break
		}
		o := options[choose(len(options))]
		f.trace = append(f.trace, o)
		steps = slices.Delete(slices.Clone(steps), slices.Index(steps, o), slices.Index(steps, o)+1)
		f.step(o, b)
	}
	f.finish()
}

func (f *socketFlip) possible(step string) bool {
	if step == "connect" || step == "append" || step == "grown" {
		return step != "grown" || f.announced < f.appended
	}
	if step == "stall" || step == "go" {
		return (step == "go") == (f.stall != nil)
	}
	if f.live == nil {
		return false
	}
	f.live.mu.Lock()
	defer f.live.mu.Unlock()
	return step != "ack" || len(f.live.held) > 0
}

func (f *socketFlip) step(step string, b bus.Bus) {
	l := f.live
	switch step {
	case "append":
		f.appended++
		id := relay.EventID(fmt.Sprint(f.inst, "-", f.appended))
		f.running.Go(func() { // may have to wait for the disk
			ev := relay.Event{ID: id, MessageID: relay.MessageID(id), Text: string(id)}
			frame, _ := wire.Pack(ev)
			_, err := f.db.Accept(f.t.Context(), store.Accept{Items: []store.AcceptItem{{
				Delivery: ev, Frame: frame, To: []store.Recipient{{Instance: f.inst}},
			}}})
			if err != nil {
				f.t.Error(err)
			}
		})
	case "grown":
		f.announced = f.appended
		b.Publish(bus.LaneGrew{Instance: f.inst})
	case "ack":
		l.mu.Lock()
		id := l.held[0]
		l.held = l.held[1:]
		l.mu.Unlock()
		f.acked[id] = f.stall == nil
		f.say(wire.InboundAck{Buffer: id})
	case "going_idle":
		l.dozing, f.asleep = true, true
		f.say(wire.GoingIdle{})
	case "hello":
		l.dozing, f.asleep = false, false
		f.say(wire.Hello{Platform: relay.RelayPlatform})
	case "cut":
		f.lose(errors.New("cut"))
	case "stop":
		f.lose(delivery.ErrShutdown)
	case "connect":
		f.lose(nil)
		f.connect()
	case "stall":
		held, begun := make(chan struct{}), make(chan struct{})
		f.stall = held
		f.running.Go(func() {
			var once sync.Once
			_ = f.db.UpdateInstance(f.t.Context(), nil, f.inst, func(*store.Instance) error {
				once.Do(func() { close(begun) })
				<-held
				return nil
			})
		})
		<-begun
	case "go":
		close(f.stall)
		f.stall = nil
	}
}

func (f *socketFlip) say(frame wire.Frame) {
	conn := f.live.conn
	f.running.Go(func() { _ = conn.Send(f.t.Context(), frame) })
}

// lose ends the live connection, if there is one: cause nil is left to the next hello.
func (f *socketFlip) lose(cause error) {
	l := f.live
	if l == nil {
		return
	}
	l.mu.Lock()
	if !l.dozing && len(l.held) > 0 && cause != delivery.ErrShutdown {
		f.deaths[l.held[0]]++
	}
	l.mu.Unlock()
	switch {
	case errors.Is(cause, delivery.ErrShutdown):
		l.end(cause)
	case cause != nil:
		l.cut()
	}
	f.live = nil
}

// connect dials and says hello.
func (f *socketFlip) connect() {
	f.asleep = false
	f.dial()
	f.say(wire.Hello{Platform: relay.RelayPlatform})
}

// dial opens a socket over a pipe.
func (f *socketFlip) dial() {
	near, far := net.Pipe()
	ctx, end := context.WithCancelCause(f.t.Context())
	l := &flipLink{end: end, cut: func() { _ = far.Close() }}
	door := &pipeListener{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	door.conns <- near
	taken := make(chan struct{})
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(taken)
		conn, err := session.Accept(w, r)
		if err != nil {
			f.t.Errorf("accept: %v", err)
			return
		}
		f.running.Go(func() {
			_ = f.hub.Serve(ctx, ctx, conn, &session.Peer{Gateway: relay.GatewayID(f.inst), Instance: f.inst, Tenant: relay.DefaultTenant, Stock: f.stock})
			_ = conn.CloseNow()
		})
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(door) }()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return far, nil },
	}}
	var err error
	l.conn, err = wiretest.Dial(f.t.Context(), "ws://connector/relay", &websocket.DialOptions{HTTPClient: client})
	must.Succeed(f.t, err)
	<-taken
	_ = srv.Close()
	<-served
	f.running.Go(func() { l.read(f.t.Context()) })
	f.live = l
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// read notes what comes, and checks it.
func (l *flipLink) read(ctx context.Context) {
	err := l.conn.Each(ctx, func(frame wire.Frame) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch x := frame.(type) {
		case wire.Descriptor:
			l.idle = false
		case wire.GoingIdleAck:
			l.idle = true
		case wire.OutboundResult:
			l.results++
		case wire.Inbound:
			if l.idle {
				l.problem = x.Buffer + " came behind the going_idle_ack"
			}
			l.texts = append(l.texts, x.Event.Text)
			if !slices.Contains(l.held, x.Buffer) {
				l.held = append(l.held, x.Buffer)
			}
		default:
			l.problem = fmt.Sprintf("%T", frame)
		}
		return nil
	})
	if errors.Is(err, wiretest.ErrUnreadable) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.problem = err.Error()
	}
}

// finish lets everything end, compares what is stored with what ought to be, and has a healthy
// gateway take what is left.
func (f *socketFlip) finish() {
	if f.stall != nil {
		close(f.stall)
	}
	synctest.Wait()
	path := strings.Join(f.trace, ", ")
	i, err := store.Only(f.db.Instances(f.t.Context(), f.inst))
	if err != nil || i.Asleep != f.asleep {
		f.t.Errorf("%s: asleep = %v, %v, want %v", path, i.Asleep, err, f.asleep)
	}
	f.checkLink(path)
	f.lose(delivery.ErrShutdown)
	f.connect()
	synctest.Wait()
	entries, err := f.db.Lanes.Entries(f.t.Context(), f.inst, store.EntryFilter{})
	must.Succeed(f.t, err)
	for _, e := range entries {
		id := e.Buffer.String()
		if f.acked[id] {
			f.t.Errorf("%s: %s was acknowledged and is still there", path, id)
		}
		if e.Deaths != f.deaths[id] {
			f.t.Errorf("%s: %s has %d deaths, want %d", path, id, e.Deaths, f.deaths[id])
		}
	}
	for _, e := range entries {
		f.live.mu.Lock()
		if len(f.live.held) != 1 || f.live.held[0] != e.Buffer.String() {
			f.t.Errorf("%s: the last gateway holds %v, want %s", path, f.live.held, e.Buffer)
		}
		f.live.held = nil
		f.live.mu.Unlock()
		f.say(wire.InboundAck{Buffer: e.Buffer.String()})
		synctest.Wait()
	}
	if l, err := f.db.Lanes.State(f.t.Context(), f.inst); err != nil || l.Entries != 0 {
		f.t.Errorf("%s: %d entries left behind, %v", path, l.Entries, err)
	}
	f.checkLink(path)
	f.live.cut()
	f.running.Wait()
	if f.t.Failed() {
		f.t.FailNow() // one order is enough to read
	}
}

func (f *socketFlip) checkLink(path string) {
	if f.live == nil {
		return
	}
	f.live.mu.Lock()
	defer f.live.mu.Unlock()
	if f.live.problem != "" {
		f.t.Errorf("%s: %s", path, f.live.problem)
	}
}
