package hub

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/relay/wire/wiretest"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/long"
	"github.com/hermes-connector/hermes-connector/testdata/must"
)

var soakFor = flag.Duration("soak", long.Pick(time.Second, 3*time.Second), "how long TestSoak runs; the table is printed from a minute on")

const (
	soakSpeed    = 1440 // a minute is a day: seen marks, ages and silences run out
	soakGateways = 10
	soakRate     = 10 * time.Millisecond // between two events
	soakSamples  = 40
)

// soak is a connector in use for days: gateways that come and go in every way, steady traffic,
// people and instances that come and go, and what all of that leaves behind.
type soak struct {
	r     *rig
	began time.Time

	mu     sync.Mutex // guards the fields below
	sent   [soakGateways]int
	seen   [soakGateways]int // the newest event each instance received
	acked  [soakGateways]int // the newest one it acknowledged
	missed [soakGateways][]int
	heard  int
	modes  map[string]int
}

// now is the store's clock.
func (s *soak) now() time.Time { return s.began.Add(time.Since(s.began) * soakSpeed) }

// TestSoak keeps ten flapping gateways going, in simulated days, and asks that nothing is lost,
// that order is kept, and that goroutines, memory and the file end as they were.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := &soak{began: time.Now(), modes: make(map[string]int)}
	s.r = newRigOn(t, store.Options{Now: s.now}, func(p *local.Loopback) platforms.Bot { return p })
	for i := range soakGateways {
		s.r.enroll(fmt.Sprint("g", i), relay.UserID(fmt.Sprint("u", i)))
	}
	s.r.enroll("sleeper", "zoe") // never comes: what waits for it runs out

	ctx, stop := context.WithTimeout(t.Context(), *soakFor)
	defer stop()
	var wg sync.WaitGroup
	for i := range soakGateways {
		wg.Go(func() { s.flap(ctx, i, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	wg.Go(func() { s.traffic(ctx) })
	wg.Go(func() { s.churn(ctx) })
	samples := s.sample(ctx)
	wg.Wait()
	s.settle()
	s.judge(samples)
}

// traffic hands in events for everybody in turn, one each at least, and now and then what a platform
// repeats.
func (s *soak) traffic(ctx context.Context) {
	in := s.r.hub.in.Inbox(s.r.bot)
	for n := 0; n < soakGateways || backoff.Pause(ctx, soakRate); n++ {
		i := n % soakGateways
		s.mu.Lock()
		s.sent[i]++
		no := s.sent[i]
		s.mu.Unlock()
		ev := soakEvent(s.r, fmt.Sprint("g", i, "-", no), relay.UserID(fmt.Sprint("u", i)), fmt.Sprint(no))
		batch := platforms.Batch{Events: []relay.Event{ev, ev}, Cursor: []byte(ev.ID)}
		if n%50 == 0 {
			batch.Events = append(batch.Events, soakEvent(s.r, fmt.Sprint("z", n), "zoe", "z"))
		}
		if err := in.Accept(context.WithoutCancel(ctx), batch); err != nil {
			s.r.t.Errorf("accept: %v", err)
			return
		}
	}
}

func soakEvent(r *rig, id string, user relay.UserID, text string) relay.Event {
	ev := benchEvent(r, 0)
	ev.ID, ev.MessageID = relay.EventID(id), relay.MessageID(id)
	ev.Text = text + " " + strings.Repeat("x", 500)
	ev.Source.UserID, ev.Source.ChatID = user, relay.ChatID("@"+user)
	return ev
}

// churn enrolls, binds, revokes and sweeps.
func (s *soak) churn(ctx context.Context) {
	in := s.r.hub.in.Inbox(s.r.bot)
	for n := 0; backoff.Pause(ctx, 500*time.Millisecond); n++ {
		long := context.WithoutCancel(ctx)
		name := relay.GatewayID(fmt.Sprint("guest", n%5))
		err := s.r.db.Enroll(long, nil, store.Gateway{ID: name, Instance: relay.InstanceID(name), Tenant: relay.DefaultTenant, Newer: true},
			store.Instance{ID: relay.InstanceID(name), Tenant: relay.DefaultTenant})
		if err == nil {
			err = s.r.db.Bind(long, nil, store.Binding{Platform: local.LoopbackID, User: "gus", Instance: relay.InstanceID(name), BoundAt: s.now()})
		}
		if err == nil {
			err = in.Accept(long, platforms.Batch{Events: []relay.Event{soakEvent(s.r, fmt.Sprint("guest", n), "gus", "hi")}})
		}
		if err == nil {
			_, err = s.r.db.Revoke(long, nil, relay.InstanceID(name), name)
		}
		if err == nil && n%5 == 0 { // an hour
			_, err = s.r.db.Sweep(long)
		}
		if err != nil {
			s.r.t.Errorf("churn: %v", err)
			return
		}
	}
}

// flap is one gateway's life.
func (s *soak) flap(ctx context.Context, i int, rnd *rand.Rand) {
	modes := []string{"close", "cut", "idle", "idle", "takeover", "deaf", "idle and back"}
	for ctx.Err() == nil {
		mode := modes[rnd.IntN(len(modes))]
		stay := time.Second + time.Duration(rnd.Int64N(int64(3*time.Second)))
		if g, err := s.dial(ctx, i); err == nil {
			s.live(ctx, g, mode, stay)
			s.mu.Lock()
			s.modes[mode]++
			s.mu.Unlock()
		}
		backoff.Pause(ctx, time.Duration(rnd.Int64N(int64(time.Second))))
	}
}

// soakGateway is one connection of instance i.
type soakGateway struct {
	s    *soak
	i    int
	conn *wiretest.End
	past bool // another connection takes over: what still comes here may be behind that one's (guarded by s.mu)
}

func (g *soakGateway) outlive() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.past = true
}

func (s *soak) dial(ctx context.Context, i int) (*soakGateway, error) {
	conn, err := wiretest.Dial(ctx, strings.Replace(s.r.door.URL, "http", "ws", 1)+fmt.Sprint("/?as=g", i), nil)
	if err != nil {
		return nil, err
	}
	g := &soakGateway{s: s, i: i, conn: conn}
	return g, conn.Send(ctx, wire.Hello{Platform: s.r.bot.Platform, BotID: s.r.bot.ID})
}

// live is one connection from hello to its end.
func (s *soak) live(ctx context.Context, g *soakGateway, mode string, stay time.Duration) {
	defer g.conn.CloseNow()
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), stay+patience)
	defer stop()
	var bye <-chan time.Time
	if mode != "takeover" {
		t := time.NewTimer(stay)
		defer t.Stop()
		bye = t.C
	}
	ended := make(chan error, 1)
	idle := make(chan struct{}, 1)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer stop()
	reader.Go(func() { ended <- g.read(ctx, mode == "deaf", idle) })
	if mode == "takeover" {
		g.outlive()
		if next, err := s.dial(ctx, g.i); err == nil {
			s.live(ctx, next, "close", stay)
		}
		bye = time.After(5 * time.Second) // the other one may have been refused
	}
	select {
	case <-ended:
		return
	case <-bye:
	}
	switch mode {
	case "close":
		_ = g.conn.Close(websocket.StatusNormalClosure, "")
	case "idle", "idle and back":
		if g.conn.Send(ctx, wire.GoingIdle{}) != nil {
			return
		}
		select {
		case <-idle:
		case <-ended:
			return
		case <-ctx.Done():
			s.r.t.Errorf("gateway %d: no going_idle_ack", g.i)
			return
		}
		if mode == "idle and back" && g.conn.Send(ctx, wire.Hello{Platform: s.r.bot.Platform, BotID: s.r.bot.ID}) == nil {
			backoff.Pause(ctx, time.Second)
		}
		_ = g.conn.Close(websocket.StatusNormalClosure, "")
	}
}

// read takes what comes, and acknowledges it unless deaf.
func (g *soakGateway) read(ctx context.Context, deaf bool, idle chan<- struct{}) error {
	asleep := false
	return g.conn.Each(ctx, func(f wire.Frame) error {
		switch f := f.(type) {
		case wire.GoingIdleAck:
			asleep = true
			idle <- struct{}{}
		case wire.Descriptor:
			asleep = false
		case wire.Inbound:
			if asleep {
				g.s.r.t.Errorf("gateway %d: an event behind the going_idle_ack", g.i)
			}
			no := g.received(f.Event.Text)
			if deaf {
				return nil
			}
			g.s.acknowledges(g.i, no)
			return g.conn.Send(ctx, wire.InboundAck{Buffer: f.Buffer})
		}
		return nil
	})
}

// received checks the order of what an instance gets: nothing again that was acknowledged, but for the delivery in doubt, and
// nothing left out but dead letters, which are looked at in the end. What was said in a row comes as one, a line each. newest is
// the number of the last of them.
func (g *soakGateway) received(text string) (newest int) {
	s, i := g.s, g.i
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.SplitSeq(text, "\n") {
		_, _ = fmt.Sscan(line, &newest)
		s.heard++
		for n := s.seen[i] + 1; n < newest; n++ {
			s.missed[i] = append(s.missed[i], n)
		}
		s.seen[i] = max(s.seen[i], newest)
	}
	if newest < s.acked[i] && !g.past {
		s.r.t.Errorf("instance %d: event %d comes again after %d was acknowledged", i, newest, s.acked[i])
	}
	return newest
}

func (s *soak) acknowledges(i, no int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked[i] = max(s.acked[i], no)
}

// soakSample is what a connector holds at one moment.
type soakSample struct {
	at         time.Duration
	goroutines int
	heap       uint64
	file       int64
	backlog    int
	heard      int
}

func (s *soak) sample(ctx context.Context) []soakSample {
	var all []soakSample
	for range soakSamples {
		if !backoff.Pause(ctx, *soakFor/(soakSamples+1)) {
			break
		}
		x := soakSample{at: time.Since(s.began), goroutines: runtime.NumGoroutine(), heap: settledHeap(), file: s.r.db.Stats().FileBytes}
		for i := range soakGateways {
			if l, err := s.r.db.Lanes.State(context.WithoutCancel(ctx), relay.InstanceID(fmt.Sprint("g", i))); err == nil {
				x.backlog += l.Entries
			}
		}
		s.mu.Lock()
		x.heard = s.heard
		s.mu.Unlock()
		all = append(all, x)
		if *soakFor >= time.Minute {
			fmt.Printf("%8s  day %5.1f  %4d goroutines  heap %5.1f MB  file %6.1f MB  backlog %5d  delivered %8d\n",
				x.at.Round(time.Second), x.at.Hours()*soakSpeed/24, x.goroutines, mb(x.heap), mb(uint64(x.file)), x.backlog, x.heard)
		}
	}
	return all
}

// settle has every gateway take what is left for it.
func (s *soak) settle() {
	for i := range soakGateways {
		ctx, stop := context.WithTimeout(s.r.t.Context(), 5*time.Minute) // of a long backlog several events come, and no turn of theirs ends
		g, err := s.dial(ctx, i)
		for errors.Is(err, context.Canceled) || err != nil && ctx.Err() == nil { // dialled too often
			backoff.Pause(ctx, time.Second)
			g, err = s.dial(ctx, i)
		}
		if err != nil {
			s.r.t.Fatalf("the last dial of %d: %v", i, err)
		}
		read := make(chan error, 1)
		go func() { read <- g.read(ctx, false, make(chan struct{}, 1)) }()
		for left := 1; left > 0 && backoff.Pause(ctx, 20*time.Millisecond); {
			l, err := s.r.db.Lanes.State(ctx, relay.InstanceID(fmt.Sprint("g", i)))
			must.Succeed(s.r.t, err)
			left = l.Entries
		}
		_ = g.conn.CloseNow()
		<-read
		stop()
	}
}

// judge compares what was sent with what came, and the last quarter with the first.
func (s *soak) judge(samples []soakSample) {
	t := s.r.t
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := 0
	for i := range soakGateways {
		sent += s.sent[i]
		dead, err := s.r.db.Lanes.Entries(t.Context(), relay.InstanceID(fmt.Sprint("g", i)), store.EntryFilter{Dead: true})
		must.Succeed(t, err)
		for n := s.seen[i] + 1; n <= s.sent[i]; n++ {
			s.missed[i] = append(s.missed[i], n)
		}
		for _, n := range s.missed[i] {
			if !slices.ContainsFunc(dead, func(d store.Entry) bool { return strings.HasPrefix(eventIn(t, d).Text, fmt.Sprint(n, " ")) }) {
				t.Errorf("instance %d: event %d of %d is lost", i, n, s.sent[i])
			}
		}
	}
	if s.heard == 0 {
		t.Fatal("no event was delivered")
	}
	if *soakFor < time.Minute {
		return // too short to say what grows
	}
	if len(samples) < 4 {
		t.Fatalf("%d samples", len(samples))
	}
	fmt.Printf("%d events, %d deliveries; connections that ended by %v\n", sent, s.heard, s.modes)
	quarter := len(samples) / 4
	first, last := samples[quarter/2:quarter+quarter/2], samples[len(samples)-quarter:] // the first ones warm up
	flat := func(what string, of func(soakSample) float64, factor, slack float64) {
		a, b := mean(first, of), mean(last, of)
		fmt.Printf("%-10s first quarter %8.1f  last quarter %8.1f\n", what, a, b)
		if b > a*factor+slack {
			t.Errorf("%s: %.1f in the first quarter, %.1f in the last", what, a, b)
		}
	}
	flat("goroutines", func(x soakSample) float64 { return float64(x.goroutines) }, 1.2, 20)
	flat("heap MB", func(x soakSample) float64 { return mb(x.heap) }, 1.2, 2)
	// Seen marks fill up for four days, and what the sleeper is owed for fourteen and as long again.
	flat("file MB", func(x soakSample) float64 { return mb(uint64(x.file)) }, 2, 16)
}

func mean(samples []soakSample, of func(soakSample) float64) float64 {
	sum := 0.0
	for _, x := range samples {
		sum += of(x)
	}
	return sum / float64(len(samples))
}
