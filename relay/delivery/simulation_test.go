package delivery

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

var errLost = errors.New("connection lost")

// world is the simulation: a lane over a buffer, the sockets that came and went, and a model of
// what ought to be, which is little more than a slice.
type world struct {
	t      *testing.T
	rt     *rapid.T
	mem    shelf
	l      *Lane
	window int

	newest  relay.BufferID
	waiting []relay.BufferID // appended and neither deleted nor dead, oldest first
	text    map[relay.BufferID]string
	acked   map[relay.BufferID]bool // an acknowledgement was tried, and counted or failed
	deaths  map[relay.BufferID]int

	live     *socket          // nil while nobody is connected
	gone     []*socket        // ended, in order
	inFlight []relay.BufferID // pushed on live and not deleted, oldest first
	turned   int              // how many forwards came again as events
	looked   int              // how many of live's pushes are in inFlight or were
	again    []relay.BufferID // of inFlight, those that are to come once more after a resume
	refused  []relay.BufferID // of inFlight, those whose deletion failed
	pushed   uint64           // sequence of the newest one pushed on live
	wide     bool             // live fronts the strange bot
	late     []relay.BufferID // had been passed over on live when it began to front their bot, oldest first
	flipped  bool
	full     bool
	slow     bool // live settles nothing
	faulted  bool // a deletion was made to fail
	born     map[relay.BufferID]time.Time
	sent     map[relay.BufferID]int  // the place of a forward's first push among live's
	repeat   map[relay.BufferID]bool // forwards that are to come once more after a resume
	free     map[relay.BufferID]bool // forwards that count as taken
	failed   bool                    // an Ack on live failed: its end is nobody's death
}

// TestSimulation drives a lane with random appends, acknowledgements, losses, takeovers, flips
// and store errors, and compares it with the model after every step.
func TestSimulation(t *testing.T) { // invariants 1 to 8
	synctest.Test(t, func(t *testing.T) {
		simulate(t, func() shelf { return newMemory() })
	})
}

// TestSimulationOnDisk is the same over the real store.
func TestSimulationOnDisk(t *testing.T) { // invariants 1 to 8
	synctest.Test(t, func(t *testing.T) {
		db := openStore(t)
		n := 0
		simulate(t, func() shelf {
			n++
			return newDisk(t, db, relay.InstanceID(fmt.Sprint("i", n)))
		})
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func simulate(t *testing.T, fresh func() shelf) {
	// The struct hides the *testing.T from rapid, which would ask for its deadline; there is none
	// to be had in a bubble.
	rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
		w := &world{
			t: t, rt: rt, mem: fresh(),
			window: rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(rt, "window"),
			text:   make(map[relay.BufferID]string), acked: make(map[relay.BufferID]bool),
			deaths: make(map[relay.BufferID]int), born: make(map[relay.BufferID]time.Time), free: make(map[relay.BufferID]bool),
		}
		inst := relay.InstanceID("i1")
		if d, ok := w.mem.(*disk); ok {
			inst = d.inst
		}
		w.l = NewLane(inst, w.mem, Options{Window: w.window})
		defer func() {
			if w.live != nil {
				w.live.end(ErrShutdown)
				<-w.live.run
			}
		}()
		rt.Repeat(w.steps())
		w.drain()
	})
}

func (w *world) steps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"append":   w.append,
		"ack":      w.ack,
		"wrongAck": w.wrongAck,
		"connect": func(*rapid.T) {
			if w.live == nil {
				w.connect()
			}
		},
		"lose":     func(*rapid.T) { w.disconnect(errLost) },
		"shutdown": func(*rapid.T) { w.disconnect(fmt.Errorf("serve: %w", ErrShutdown)) },
		"takeover": w.takeover,
		"flip":     w.flip,
		"resume":   w.resume,
		"widen":    w.widen,
		"full":     w.block,
		"room":     w.unblock,
		"slow":     w.dawdle,
		"settle":   w.settle,
		"fault":    w.fault,
		"wait":     w.wait,
		"hold":     w.hold,
		"leave":    w.leaveOutbox,
		"":         func(*rapid.T) { w.check() },
	}
}

func (w *world) append(rt *rapid.T) {
	was := w.newest.Seq
	for range rapid.IntRange(1, 3).Draw(rt, "entries") {
		text := rapid.SampledFrom([]string{"hi", "hi", "hi", "hi", "forward", "forward", "forward", "strange", "strange", "whole", "whole", "poison", "panic", "unfit", "unsettling"}).Draw(rt, "text")
		id := w.mem.append(text)
		w.text[id], w.born[id] = text, time.Now()
		w.newest = id
		w.waiting = append(w.waiting, id)
	}
	switch rapid.SampledFrom([]string{"handed over", "handed over", "handed over late", "named", "hinted at"}).Draw(rt, "told") {
	case "handed over":
		w.hand(was)
	case "handed over late":
		w.l.Grown(w.newest.Seq)
		w.hand(was)
	case "named":
		w.l.Grown(w.newest.Seq)
	default:
		w.l.Grown(0)
	}
}

// hand gives the lane the entries behind was, as whoever appended them does.
func (w *world) hand(was uint64) {
	for _, e := range w.mem.buffered() {
		if e.Buffer.Seq > was {
			w.l.Appended(e)
		}
	}
}

// afresh forgets what was known of the socket before.
func (w *world) afresh() {
	w.inFlight, w.again, w.refused, w.looked, w.turned, w.pushed = nil, nil, nil, 0, 0, 0
	w.flipped, w.full, w.slow, w.failed, w.wide, w.late = false, false, false, false, false, nil
	w.sent, w.repeat = make(map[relay.BufferID]int), make(map[relay.BufferID]bool)
}

func (w *world) connect() {
	w.live = connect(w.t, w.l)
	w.afresh()
}

// disconnect ends the live socket, and charges a death where one is due.
func (w *world) disconnect(cause error) {
	if w.live == nil {
		return
	}
	w.look()
	if w.live == nil {
		return // store trouble was quicker
	}
	w.live.end(cause)
	err := <-w.live.run
	if err != nil && !errors.Is(err, errDisk) {
		w.rt.Fatalf("Run = %v, want nil or %v", err, errDisk)
	}
	if errors.Is(cause, errLost) && !w.flipped && !w.failed && len(w.inFlight) > 0 {
		id := w.inFlight[0]
		w.deaths[id]++
		if n, ok := deathsOf(w.mem.buffered(), id); ok && err != nil { // it may have reached the disk
			w.deaths[id] = max(n, w.deaths[id]-1)
		}
	}
	w.leave()
}

func (w *world) leave() {
	w.gone = append(w.gone, w.live)
	w.live, w.inFlight, w.again = nil, nil, nil
}

// takeover starts a new socket while the old one lives; the old one ends afterwards.
func (w *world) takeover(*rapid.T) {
	if w.live == nil {
		return
	}
	next := connect(w.t, w.l)
	synctest.Wait()
	if got := next.seen(); len(got) > 0 && !w.broken() {
		w.rt.Fatalf("the new pump pushed %v while the old one runs", got)
	}
	w.disconnect(errLost)
	w.live = next
	w.afresh()
}

func (w *world) ack(rt *rapid.T) {
	inFlight := slices.Concat(w.inFlight, w.forwards())
	if w.live == nil || len(inFlight) == 0 || w.full && len(w.again)+len(w.repeat) > 0 {
		return // a full outbox makes Ack wait for what is coming again
	}
	id := rapid.SampledFrom(inFlight).Draw(rt, "id")
	w.freeBefore(id)
	counted, err := w.live.pump.Ack(w.t.Context(), id)
	if counted == (err != nil) || err != nil && !errors.Is(err, errDisk) {
		rt.Fatalf("Ack(%s) of an entry in flight = %v, %v", id, counted, err)
	}
	w.acked[id] = true
	w.again = slices.DeleteFunc(w.again, func(x relay.BufferID) bool { return x == id })
	if err != nil {
		w.refused = append(w.refused, id)
		w.failed = true // the session would end now; the simulation may go on
		return
	}
	w.inFlight = slices.DeleteFunc(w.inFlight, func(x relay.BufferID) bool { return x == id })
	if again, err := w.live.pump.Ack(w.t.Context(), id); again || err != nil {
		rt.Fatalf("Ack(%s) a second time = %v, %v, want false, nil", id, again, err)
	}
}

// freeBefore notes that forwards sent before id count as taken, because id is acknowledged.
func (w *world) freeBefore(id relay.BufferID) {
	for f, at := range w.sent {
		if at <= slices.Index(w.live.pushed, id) {
			w.free[f] = true
			delete(w.repeat, f)
		}
	}
}

// wrongAck acknowledges what is not in flight, on the live socket or an earlier one.
func (w *world) wrongAck(rt *rapid.T) {
	id := relay.BufferID{
		Epoch: w.newest.Epoch + rapid.Uint64Range(0, 1).Draw(rt, "epoch"),
		Seq:   rapid.Uint64Range(0, w.newest.Seq+2).Draw(rt, "seq"),
	}
	on := w.live
	if len(w.gone) > 0 && (on == nil || rapid.Bool().Draw(rt, "late")) {
		on = w.gone[len(w.gone)-1]
	}
	switch {
	case on == nil, w.full: // a full outbox makes Ack wait to see whether the id gets out
		return
	case on == w.live && (slices.Contains(w.inFlight, id) || w.text[id] == "forward"):
		return
	case on != w.live && w.live == nil:
		return // no other pump took over: an earlier acknowledgement may still count
	}
	if counted, err := on.pump.Ack(w.t.Context(), id); counted || err != nil {
		rt.Fatalf("Ack(%s) of an entry not in flight = %v, %v, want false, nil", id, counted, err)
	}
}

func (w *world) flip(*rapid.T) {
	if w.live == nil || w.full {
		return
	}
	if err := w.live.pump.Flip(w.t.Context()); err != nil {
		w.rt.Fatalf("Flip = %v", err)
	}
	w.look()
	w.flipped = true
}

func (w *world) resume(*rapid.T) {
	if w.live == nil {
		return
	}
	if w.flipped { // looked at before the pump goes on
		w.again = slices.DeleteFunc(slices.Clone(w.inFlight), func(x relay.BufferID) bool { return slices.Contains(w.refused, x) })
		for _, id := range w.forwards() {
			if written, out := w.pushes(id); written+out < maxPushes && len(w.live.wrote[id]) == 1 && !w.free[id] {
				w.repeat[id] = true
			}
		}
	}
	w.live.pump.Resume()
	w.flipped = false
}

// widen has live front the strange bot: what waits for it is pushed now, oldest first.
func (w *world) widen(*rapid.T) {
	if w.live == nil || w.wide {
		return
	}
	w.look()
	if w.live == nil {
		return
	}
	w.wide = true
	for _, id := range w.waiting {
		if w.text[id] == "strange" {
			w.late = append(w.late, id)
		}
	}
	w.live.widen()
}

func (w *world) block(*rapid.T) {
	if w.live != nil {
		w.live.block()
		w.full = true
	}
}

func (w *world) unblock(*rapid.T) {
	if w.live != nil {
		w.live.unblock()
		w.full = false
	}
}

func (w *world) dawdle(*rapid.T) {
	if w.live != nil {
		w.live.dawdle()
		w.slow = true
	}
}

func (w *world) settle(*rapid.T) {
	if w.live != nil {
		w.live.hurry()
		w.slow = false
	}
}

func (w *world) fault(rt *rapid.T) {
	call := rapid.SampledFrom([]string{"next", "drop", "death", "bury"}).Draw(rt, "call")
	w.faulted = w.faulted || call == "drop"
	w.mem.fail(fault{call: call, effect: rapid.Bool().Draw(rt, "effect")})
}

// wait lets time pass, in which forwards count as taken, or are good for nothing any more.
func (w *world) wait(rt *rapid.T) {
	w.look()
	time.Sleep(rapid.SampledFrom([]time.Duration{time.Second, forwardLife + time.Second, forwardLasts}).Draw(rt, "for"))
	synctest.Wait()
	if w.live == nil {
		return
	}
	for id, at := range w.live.wrote {
		if time.Since(at[0]) >= forwardLife {
			w.free[id] = true
			if !w.full { // else its push may have begun
				delete(w.repeat, id)
			}
		}
	}
}

// hold has forwards stay in the outbox of live.
func (w *world) hold(rt *rapid.T) {
	if w.live != nil {
		w.live.hold(true)
	}
}

// leaveOutbox has forwards leave the outbox of some socket: from one that ended they may be dropped.
func (w *world) leaveOutbox(rt *rapid.T) {
	all := slices.Clone(w.gone)
	if w.live != nil {
		all = append(all, w.live)
	}
	if len(all) == 0 {
		return
	}
	s := all[rapid.IntRange(0, len(all)-1).Draw(rt, "socket")]
	s.leave(s == w.live || rapid.Bool().Draw(rt, "written"))
}

// forwards are those that went on live as forwards and are in the buffer.
func (w *world) forwards() (out []relay.BufferID) {
	for _, id := range w.waiting {
		if _, ok := w.sent[id]; ok && !slices.Contains(w.inFlight, id) {
			out = append(out, id)
		}
	}
	return out
}

// pushes is how often a forward was written, and in how many outboxes it is.
func (w *world) pushes(id relay.BufferID) (written, out int) {
	all := slices.Clone(w.gone)
	if w.live != nil {
		all = append(all, w.live)
	}
	for _, s := range all {
		written += len(s.wrote[id])
		for _, h := range s.held {
			if h.id == id {
				out++
			}
		}
	}
	return written, out
}

// lookForward looks at the push of a forward as such, in that place among live's. It reports whether that is so.
func (w *world) lookForward(place int) bool {
	id := w.live.pushed[place]
	_, before := w.sent[id]
	again := w.repeat[id]
	delete(w.repeat, id)
	if before && !again {
		w.rt.Fatalf("the forward %s is pushed twice on one session", id)
	}
	old := w.live.at[place].Sub(w.born[id]) >= forwardLasts
	if !w.live.as[place] {
		if !old {
			w.rt.Fatalf("the forward %s went as an event before its time", id)
		}
		return again
	}
	if old {
		w.rt.Fatalf("the forward %s went as one past its time", id)
	}
	if !before {
		if id.Seq <= w.pushed && !w.outOfOrder(id) {
			w.rt.Fatalf("pushed the forward %s after %d", id, w.pushed)
		}
		w.sent[id], w.pushed = place, max(w.pushed, id.Seq)
	}
	return true
}

// outOfOrder reports whether a forward may come late: it was in the outboxes of earlier sockets, which dropped it.
func (w *world) outOfOrder(id relay.BufferID) bool {
	return slices.ContainsFunc(w.gone, func(s *socket) bool { return slices.Contains(s.pushed, id) })
}

// broken reports whether store trouble has ended the live pump.
func (w *world) broken() bool { return w.live != nil && len(w.live.run) > 0 }

// look waits until nothing moves and checks what the live socket was given since the last look.
func (w *world) look() {
	synctest.Wait()
	if w.live == nil {
		return
	}
	pushed := w.live.seen()
	for place, id := range pushed {
		if place < w.looked {
			continue
		}
		if w.flipped {
			w.rt.Fatalf("pushed %s while flipped", id)
		}
		if w.text[id] == "forward" && w.lookForward(place) {
			if !w.live.as[place] { // past its time, after a resume
				w.inFlight, w.turned = append(w.inFlight, id), w.turned+1
			}
			continue
		}
		if len(w.again) > 0 {
			if id != w.again[0] {
				w.rt.Fatalf("pushed %s, want %s again", id, w.again[0])
			}
			w.again = w.again[1:]
			continue
		}
		if i := slices.Index(w.late, id); i >= 0 {
			w.late = w.late[i+1:]
		} else if id.Seq <= w.pushed {
			w.rt.Fatalf("pushed %s after %d", id, w.pushed)
		} else {
			w.pushed = id.Seq
		}
		if w.text[id] == "strange" && !w.wide {
			w.rt.Fatalf("pushed %s, whose bot is not fronted", id)
		}
		if !slices.Contains(w.waiting, id) {
			w.rt.Fatalf("pushed %s, which had left the buffer", id)
		}
		w.inFlight = append(w.inFlight, id)
	}
	w.looked = len(pushed)
	if len(w.inFlight) > w.window+w.turned {
		w.rt.Fatalf("%d in flight, want at most %d", len(w.inFlight), w.window)
	}
	if w.broken() {
		if err := <-w.live.run; !errors.Is(err, errDisk) {
			w.rt.Fatalf("Run ended by itself with %v", err)
		}
		w.leave()
	}
}

// check compares buffer and model, and asks that nothing is kept waiting without a reason.
func (w *world) check() {
	w.look()
	now := w.mem.buffered()
	for id, text := range w.text {
		if text != "forward" {
			continue
		}
		written, out := w.pushes(id)
		if written > maxPushes || written+out > maxPushes {
			w.rt.Fatalf("the forward %s was written %d times and is in %d outboxes", id, written, out)
		}
		w.free[id] = w.free[id] || written == maxPushes
		if w.free[id] && w.live != nil && !w.flipped && !w.faulted && !w.full && w.sent != nil && slices.Contains(idsOf(now), id) {
			if _, ok := w.sent[id]; ok {
				w.rt.Fatalf("the forward %s counts as taken and is still there", id)
			}
		}
	}
	for _, id := range w.waiting {
		if n, ok := deathsOf(now, id); ok {
			if n != w.deaths[id] {
				w.rt.Fatalf("%s has %d deaths, want %d", id, n, w.deaths[id])
			}
			continue
		}
		why, dead := w.mem.reason(id)
		switch {
		case (w.acked[id] || w.free[id]) && !dead:
		case why == store.DeadPoison && slices.Contains([]string{"poison", "panic", "unfit", "unsettling"}, w.text[id]):
		case why == store.DeadDeaths && w.deaths[id] >= maxDeaths:
		default:
			w.rt.Fatalf("%s (%q, %d deaths) left the buffer without an acknowledgement: %q", id, w.text[id], w.deaths[id], why)
		}
	}
	w.waiting = idsOf(now)
	if w.live == nil || w.flipped || w.full || w.slow {
		return
	}
	if len(w.again) > 0 && !w.failed {
		w.rt.Fatalf("%v do not come again after the resume", w.again)
	}
	if len(w.inFlight) >= w.window {
		return
	}
	for _, id := range w.waiting {
		if w.text[id] == "strange" && !w.wide {
			continue
		}
		if w.text[id] == "forward" {
			written, out := w.pushes(id)
			if _, ok := w.sent[id]; ok || written+out >= maxPushes || w.free[id] {
				continue
			}
		}
		if !slices.Contains(w.inFlight, id) && !w.failed {
			w.rt.Fatalf("%s waits although %d of %d are in flight", id, len(w.inFlight), w.window)
		}
	}
}

// drain lets a healthy gateway take everything: nothing may be left, nothing may come twice.
func (w *world) drain() {
	w.mem.heal()
	w.disconnect(ErrShutdown)
	for _, s := range w.gone {
		s.leave(false)
	}
	w.connect()
	w.widen(w.rt)
	for w.check(); len(w.inFlight)+len(w.forwards()) > 0; w.check() {
		if len(w.inFlight) == 0 {
			for _, id := range w.forwards() {
				w.free[id] = true
			}
			time.Sleep(forwardLife + time.Second)
			continue
		}
		w.freeBefore(w.inFlight[0])
		if counted, err := w.live.pump.Ack(w.t.Context(), w.inFlight[0]); !counted || err != nil {
			w.rt.Fatalf("Ack(%s) = %v, %v, want true, nil", w.inFlight[0], counted, err)
		}
		w.acked[w.inFlight[0]] = true
		w.inFlight = w.inFlight[1:]
	}
	if len(w.waiting) > 0 {
		w.rt.Fatalf("left behind: %v", w.waiting)
	}
}
