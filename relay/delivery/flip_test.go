package delivery

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

var flipSchedules = flag.Int("flips", long.Pick(500, 5000), "at most so many schedules of each case of TestFlipInEveryOrder")

var errCrashed = errors.New("the process is gone")

// What happens outside the pump, each as often as the case says.
const (
	doAppend  = "append"     // an entry is committed
	doGrown   = "grown"      // the lane hears of one
	doHand    = "handed"     // the lane is given the oldest that it did not hear of
	doAck     = "ack"        // the gateway acknowledges the oldest entry that it has not
	doIdle    = "going_idle" // is read
	doHello   = "hello"      // comes on the same socket
	doCut     = "cut"        // the socket ends
	doConnect = "connect"    // a new socket says hello, and replaces the old one if that is there
	doStop    = "stop"       // the connector ends the session because it stops
	doCrash   = "crash"      // the process is killed, and starts again over the same buffer
)

// TestFlipInEveryOrder runs what can happen around a flip in every order that cause and effect
// allow: the steps of a case, and between them each read of the buffer, push, and commit (queued, then
// begun) that a step sets off. A million for -flips leaves none out.
func TestFlipInEveryOrder(t *testing.T) { // invariants 1 to 7
	for name, tc := range map[string]struct {
		window int
		steps  string
	}{
		"an event in the flip window":      {1, "append grown going_idle ack connect"},
		"and the socket dies":              {1, "append grown going_idle ack cut connect"},
		"the same socket wakes":            {1, "append grown going_idle ack hello"},
		"the same socket wakes, then dies": {1, "append grown going_idle hello ack cut"},
		"two events, the same socket":      {1, "append append grown going_idle hello ack ack"},
		"two events, another socket":       {1, "append append grown going_idle ack cut connect ack"},
		"three events":                     {1, "append append append grown going_idle ack ack connect"},
		"a hello without a flip":           {1, "append grown hello ack cut"},
		"a takeover and a late flip":       {1, "append grown connect going_idle ack ack"},
		"two takeovers":                    {1, "append grown connect connect ack"},
		"the connector stops":              {1, "append grown going_idle ack stop connect"},
		"the process is killed":            {1, "append grown going_idle ack crash connect"},
		"killed twice":                     {1, "append grown crash connect ack crash connect"},
		"asleep twice":                     {1, "append grown going_idle hello going_idle ack connect"},
		"two events and a crash":           {1, "append append grown going_idle ack crash connect"},
		"two events, taken over":           {1, "append append grown connect going_idle hello ack"},
		"a window of two":                  {2, "append append grown going_idle ack hello ack"},
		"a window of two, cut":             {2, "append append grown going_idle ack cut connect"},
		"handed over":                      {1, "append handed going_idle ack connect"},
		"handed over, the same socket":     {1, "append append handed handed going_idle hello ack"},
		"handed over and taken over":       {1, "append handed append connect handed ack"},
		"a window of two, handed over":     {2, "append append handed handed going_idle hello ack"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, all := explore(*flipSchedules, func(choose func(int) int) {
					runFlips(t, tc.window, strings.Fields(tc.steps), choose)
				})
				t.Logf("%d schedules, all of them: %v", n, all)
			})
		})
	}
}

// explore runs f once for every sequence of choices it can make, depth first, at most most times.
func explore(most int, f func(choose func(int) int)) (n int, all bool) {
	var path, width []int
	for n < most {
		at := 0
		f(func(options int) int {
			if at == len(path) {
				path, width = append(path, 0), append(width, 0)
			}
			width[at] = options
			at++
			return path[at-1]
		})
		n++
		path, width = path[:at], width[:at]
		for len(path) > 0 && path[len(path)-1]+1 >= width[len(path)-1] {
			path, width = path[:len(path)-1], width[:len(width)-1]
		}
		if len(path) == 0 {
			return n, true
		}
		path[len(path)-1]++
	}
	return n, false
}

// flips is one run of one schedule.
type flips struct {
	t      testing.TB
	mem    *memory
	window int
	lane   *Lane
	live   *flipSocket
	crash  chan struct{} // closed when the process is killed

	mu        sync.Mutex // guards the fields below
	trace     []string
	parked    map[string]chan struct{} // calls that wait for the schedule
	open      bool                     // nothing waits for it any more
	appended  int
	announced int
	gone      map[relay.BufferID]bool // the deletion is committed
	deaths    map[relay.BufferID]int
	running   sync.WaitGroup
}

// flipSocket is a gateway's connection, and what was written to it.
type flipSocket struct {
	pump *Pump
	ctx  context.Context
	end  context.CancelCauseFunc

	// Guarded by flips.mu.
	held    []relay.BufferID // written, and not acknowledged here, oldest first
	again   []relay.BufferID // of those, the ones a hello makes due once more
	newest  uint64
	asleep  bool // going_idle was read, and no hello since
	flipped bool // and acknowledged
}

func runFlips(t testing.TB, window int, steps []string, choose func(int) int) {
	w := &flips{
		t: t, mem: newMemory(), window: window, parked: make(map[string]chan struct{}),
		gone: make(map[relay.BufferID]bool), deaths: make(map[relay.BufferID]int),
	}
	w.boot()
	w.connect()
	for {
		synctest.Wait()
		options, calls := w.options(steps)
		if len(options) == 0 {
			break
		}
		o := options[choose(len(options))]
		w.note(o)
		if len(calls) > 0 && slices.Contains(calls, o) {
			w.release(o)
			continue
		}
		steps = slices.Delete(slices.Clone(steps), slices.Index(steps, o), slices.Index(steps, o)+1)
		w.step(o)
	}
	w.stalled()
	w.finish()
}

// stalled checks, once nothing can come any more, that nothing is kept waiting without a reason.
func (w *flips) stalled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.live
	if s == nil || s.asleep || len(s.held) >= w.window && len(s.again) == 0 {
		return
	}
	for _, e := range w.mem.buffered() {
		if e.Buffer.Seq <= uint64(w.announced) && !slices.Contains(s.held, e.Buffer) || slices.Contains(s.again, e.Buffer) {
			w.t.Errorf("%s: %s waits", w.pathLocked(), e.Buffer)
		}
	}
}

// options are the calls and steps that can come next, in an order that depends on nothing else.
func (w *flips) options(steps []string) (options, calls []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.parked {
		calls = append(calls, name)
	}
	slices.Sort(calls)
	options = slices.Clone(calls)
	for _, s := range steps {
		if !slices.Contains(options, s) && w.possibleLocked(s) {
			options = append(options, s)
		}
	}
	return options, calls
}

func (w *flips) possibleLocked(step string) bool {
	switch step {
	case doGrown, doHand:
		return w.announced < w.appended
	case doAck:
		return w.live != nil && len(w.live.held) > 0
	case doHello: // waits until going_idle is answered
		return w.live != nil && w.live.asleep == w.live.flipped
	case doIdle, doCut, doStop:
		return w.live != nil
	}
	return true
}

func (w *flips) step(step string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.live
	switch step {
	case doAppend:
		w.mem.append("hi")
		w.appended++
	case doGrown:
		w.announced = w.appended
		w.lane.Grown(0)
	case doHand:
		w.announced++ // one at a time: the pump runs beside
		for _, e := range w.mem.buffered() {
			if e.Buffer.Seq == uint64(w.announced) {
				w.lane.Appended(e)
			}
		}
	case doAck:
		w.ackLocked(s)
	case doIdle:
		s.asleep = true
		w.running.Go(func() {
			if s.pump.Flip(s.ctx) == nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				s.flipped = s.asleep
			}
		})
	case doHello:
		if s.asleep {
			s.again = slices.Clone(s.held)
		}
		s.asleep, s.flipped = false, false
		s.pump.Resume()
	case doCut:
		w.loseLocked()
	case doConnect:
		w.loseLocked()
		w.connect()
	case doStop:
		s.end(fmt.Errorf("serve: %w", ErrShutdown))
		w.live = nil
	case doCrash:
		close(w.crash)
		if s != nil {
			s.end(ErrShutdown)
		}
		w.live = nil
		w.boot()
	}
}

// boot starts the process.
func (w *flips) boot() {
	w.crash = make(chan struct{})
	w.lane = NewLane("i1", &gated{memory: w.mem, w: w, crash: w.crash}, Options{Window: w.window})
}

func (w *flips) connect() {
	s := &flipSocket{}
	s.ctx, s.end = context.WithCancelCause(w.t.Context())
	crash := w.crash
	s.pump = w.lane.NewPump(Outlet{Push: func(ctx context.Context, e store.Entry, _ func(bool)) error {
		if err := w.park(ctx, crash, "push "+e.Buffer.String()); err != nil {
			return err
		}
		w.written(s, e.Buffer)
		return nil
	}})
	w.live = s
	w.running.Go(func() {
		if err := s.pump.Run(s.ctx); err != nil && !errors.Is(err, errCrashed) {
			w.t.Errorf("%s: Run = %v", w.path(), err)
		}
	})
}

// loseLocked ends the live socket, if there is one. w.mu must be held.
func (w *flips) loseLocked() {
	s := w.live
	if s == nil {
		return
	}
	if !s.asleep && len(s.held) > 0 {
		w.deaths[s.held[0]]++
	}
	s.end(errLost)
	w.live = nil
}

// ackLocked acknowledges the oldest entry written to s. w.mu must be held.
func (w *flips) ackLocked(s *flipSocket) {
	id, crash := s.held[0], w.crash
	s.held = s.held[1:]
	if _, pushing := w.parked["push "+id.String()]; !pushing { // else it has to come twice
		s.again = slices.DeleteFunc(s.again, func(x relay.BufferID) bool { return x == id })
	}
	w.running.Go(func() {
		counted, err := s.pump.Ack(s.ctx, id)
		select {
		case <-crash:
			return
		default:
		}
		if s.ctx.Err() == nil && (!counted || err != nil) {
			w.t.Errorf("%s: Ack(%s) of an entry in flight = %v, %v", w.path(), id, counted, err)
		}
	})
}

// written checks a frame that goes out.
func (w *flips) written(s *flipSocket, id relay.BufferID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	again := len(s.again) > 0
	switch {
	case s.flipped:
		w.t.Errorf("%s: %s written behind the going_idle_ack", w.pathLocked(), id)
	case w.gone[id]:
		w.t.Errorf("%s: %s written after its deletion was committed", w.pathLocked(), id)
	case again && id != s.again[0]:
		w.t.Errorf("%s: %s written, want %s once more", w.pathLocked(), id, s.again[0])
	case !again && id.Seq != s.newest+1 && s.newest > 0:
		w.t.Errorf("%s: %s written behind %d", w.pathLocked(), id, s.newest)
	}
	if again {
		s.again = s.again[1:]
		return
	}
	s.newest = id.Seq
	s.held = append(s.held, id)
}

// finish lets everything that waits go on, and has a healthy gateway take what is left.
func (w *flips) finish() {
	w.mu.Lock()
	w.open = true
	w.loseLocked()
	w.connect()
	w.mu.Unlock()
	synctest.Wait()
	var want []relay.BufferID
	for _, e := range w.mem.buffered() {
		want = append(want, e.Buffer)
		if e.Deaths != w.deaths[e.Buffer] {
			w.t.Errorf("%s: %s has %d deaths, want %d", w.path(), e.Buffer, e.Deaths, w.deaths[e.Buffer])
		}
	}
	if len(want)+len(w.gone) != w.appended {
		w.t.Errorf("%s: %d entries left and %d acknowledged of %d", w.path(), len(want), len(w.gone), w.appended)
	}
	for _, id := range want {
		synctest.Wait()
		w.mu.Lock()
		if len(w.live.held) == 0 || w.live.held[0] != id {
			w.t.Errorf("%s: the last gateway holds %v, want %s", w.pathLocked(), w.live.held, id)
			w.mu.Unlock()
			break
		}
		w.ackLocked(w.live)
		w.mu.Unlock()
	}
	synctest.Wait()
	w.live.end(ErrShutdown)
	w.running.Wait()
	if left := w.mem.buffered(); len(left) > 0 {
		w.t.Errorf("%s: %d entries left behind", w.path(), len(left))
	}
	if w.t.Failed() {
		w.t.FailNow() // one schedule is enough to read
	}
}

func (w *flips) note(step string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, step)
}

func (w *flips) path() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pathLocked()
}

func (w *flips) pathLocked() string { return strings.Join(w.trace, ", ") }

// park makes the caller wait until the schedule releases name, the process is killed, or ctx ends.
func (w *flips) park(ctx context.Context, crash chan struct{}, name string) error {
	w.mu.Lock()
	if w.open {
		defer w.mu.Unlock()
		return context.Cause(ctx)
	}
	release := make(chan struct{})
	w.parked[name] = release
	w.mu.Unlock()
	var err error
	select {
	case <-release:
		return nil
	case <-crash:
		err = errCrashed
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parked[name] == release {
		delete(w.parked, name)
	}
	return err
}

func (w *flips) release(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.parked[name])
	delete(w.parked, name)
}

// gated is a buffer whose calls wait for the schedule.
type gated struct {
	*memory
	w     *flips
	crash chan struct{}
}

func (g *gated) Next(ctx context.Context, i relay.InstanceID, after uint64) (store.Entry, bool, error) {
	e, ok, err := g.memory.Next(ctx, i, after)
	if err == nil && ok { // what was read grows old meanwhile
		err = g.w.park(ctx, g.crash, "read "+e.Buffer.String())
	}
	return e, ok, err
}

func (g *gated) Ack(ctx context.Context, i relay.InstanceID, bs ...relay.BufferID) error {
	b := bs[0] // there are no forwards here
	if err := g.w.park(ctx, g.crash, "queued "+b.String()); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // a commit that has begun is waited for
	if err := g.w.park(ctx, g.crash, "commit "+b.String()); err != nil {
		return err
	}
	g.w.mu.Lock()
	g.w.gone[b] = true
	g.w.mu.Unlock()
	return g.memory.Ack(ctx, i, b)
}
