package delivery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
	waiting []relay.BufferID                    // appended and neither deleted nor dead, oldest first
	text    map[relay.BufferID]string           // what kind it is
	place   map[relay.BufferID]string           // where it is said, and by whom; empty: nowhere
	ids     map[string]relay.BufferID           // by the whole text
	parts   map[relay.BufferID][]relay.BufferID // of what was pushed last under an id
	acked   map[relay.BufferID]bool             // an acknowledgement was tried, and counted or failed
	deaths  map[relay.BufferID]int

	live     *socket                 // nil while nobody is connected
	gone     []*socket               // ended, in order
	inFlight []relay.BufferID        // pushed on live and not deleted, oldest first
	turned   int                     // how many forwards came again as events
	looked   int                     // how many of live's pushes are in inFlight or were
	again    []relay.BufferID        // of inFlight, those that are to come once more after a resume
	refused  []relay.BufferID        // of inFlight, those whose deletion failed
	pushed   uint64                  // sequence of the newest one pushed on live
	wide     bool                    // live fronts the strange bot
	since    time.Time               // what is older is backlog for live
	turns    map[string]*turn        // that run on live, by conversation
	behind   map[relay.BufferID]bool // came behind what waits for a turn, and so waits too
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

// turn is one that live's backlog waits for.
type turn struct {
	began, heard time.Time
	said, ended  bool
}

// over reports whether the turn is over at that time.
func (u *turn) over(at time.Time) bool {
	if u == nil {
		return true
	}
	quiet := turnSilent
	if u.ended {
		quiet = turnEnds
	}
	return !at.Before(u.heard.Add(quiet)) || !at.Before(u.began.Add(turnMost))
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
			text:   make(map[relay.BufferID]string), place: make(map[relay.BufferID]string), ids: make(map[string]relay.BufferID),
			acked:  make(map[relay.BufferID]bool),
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
		"hear":     w.hear,
		"":         func(*rapid.T) { w.check() },
	}
}

func (w *world) append(rt *rapid.T) {
	was := w.newest.Seq
	for range rapid.IntRange(1, 3).Draw(rt, "entries") {
		text := rapid.SampledFrom([]string{
			"hi", "hi", "hi", "hi", "forward", "forward", "forward", "strange", "strange", "whole", "whole", "command", "urgent",
			"poison", "panic", "unfit", "unsettling",
		}).Draw(rt, "text")
		place := rapid.SampledFrom([]string{"", "a/x", "a/x", "a/x", "a/y", "b/x"}).Draw(rt, "place")
		whole := text
		if place != "" {
			whole = fmt.Sprintf("%s@%s#%d", text, place, len(w.text))
		}
		id := w.mem.append(whole)
		w.text[id], w.place[id], w.ids[whole], w.born[id] = text, place, id, time.Now()
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
	w.flipped, w.full, w.slow, w.failed, w.wide = false, false, false, false, false
	w.since, w.turns, w.parts = time.Now(), make(map[string]*turn), make(map[relay.BufferID][]relay.BufferID)
	w.behind = make(map[relay.BufferID]bool)
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
		for _, id := range w.parts[w.inFlight[0]] {
			w.deaths[id]++
			if n, ok := deathsOf(w.mem.buffered(), id); ok && err != nil { // it may have reached the disk
				w.deaths[id] = max(n, w.deaths[id]-1)
			}
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
	for _, x := range w.partsOf(id) {
		w.acked[x] = true
	}
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
	if w.flipped {
		w.since, w.turns = time.Now(), make(map[string]*turn)
	}
	w.live.pump.Resume()
	w.flipped = false
}

// widen has live front the strange bot: what waits for it is pushed now.
func (w *world) widen(*rapid.T) {
	if w.live == nil || w.wide {
		return
	}
	w.look()
	if w.live == nil {
		return
	}
	w.wide, w.since = true, time.Now() // all that has gathered is backlog
	w.live.widen()
}

// hear has the gateway do something in a conversation.
func (w *world) hear(rt *rapid.T) {
	if w.live == nil {
		return
	}
	w.look()
	c := Conversation{Chat: relay.Chat{Bot: loopback, ID: relay.ChatID(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "chat"))}}
	if rapid.Bool().Draw(rt, "strange") {
		c.Chat.Bot = strange
	}
	sign := rapid.SampledFrom([]Sign{Alive, Said, Closed, Final}).Draw(rt, "sign")
	if u := w.turns[nameOf(c.Chat)]; w.live != nil && !u.over(time.Now()) {
		u.heard = time.Now()
		u.said = u.said || sign == Said
		u.ended = u.ended || sign == Final || sign == Closed && u.said
	}
	if w.live != nil {
		w.live.pump.Heard(c, sign)
	}
}

// partsOf are the entries that were pushed under the id.
func (w *world) partsOf(id relay.BufferID) []relay.BufferID {
	if parts := w.parts[id]; parts != nil {
		return parts
	}
	return []relay.BufferID{id}
}

// within is the conversation of an entry that waits for turns there; empty: it waits for none.
func (w *world) within(id relay.BufferID) string {
	chat, _, _ := strings.Cut(w.place[id], "/")
	if chat == "" || w.text[id] == "urgent" {
		return ""
	}
	return nameOf(relay.Chat{Bot: botOf(w.text[id]), ID: relay.ChatID(chat)})
}

func nameOf(c relay.Chat) string { return c.Bot.String() + " " + string(c.ID) }

// ahead are the entries older than id in its conversation that have still to be pushed on live.
func (w *world) ahead(id relay.BufferID) (older []relay.BufferID) {
	c := w.within(id)
	for _, x := range idsOf(w.mem.buffered()) {
		if x.Seq < id.Seq && c != "" && w.within(x) == c && w.text[x] != "forward" && !w.onLive(x) {
			older = append(older, x)
		}
	}
	return older
}

// onLive reports whether an entry was pushed on live and is in the buffer.
func (w *world) onLive(id relay.BufferID) bool {
	return slices.ContainsFunc(w.inFlight, func(x relay.BufferID) bool { return slices.Contains(w.partsOf(x), id) })
}

// lookJoined looks at what came under an id for the first time, at that place among live's pushes: it is what one person
// said in a row in one conversation, none of it left out, and of backlog not before its turn.
func (w *world) lookJoined(place int, again bool) {
	id := w.live.pushed[place]
	var parts []relay.BufferID
	for line := range strings.SplitSeq(w.live.texts()[place], "\n") {
		if w.place[w.ids[line]] != "" {
			parts = append(parts, w.ids[line])
		}
	}
	if parts == nil {
		parts = []relay.BufferID{id}
	}
	if parts[len(parts)-1] != id {
		w.rt.Fatalf("%v came under %s", parts, id)
	}
	if again && !slices.Equal(parts, w.parts[id]) {
		w.rt.Fatalf("%v came again as %v", w.parts[id], parts)
	}
	for n, x := range parts {
		if w.onLive(x) && !again {
			w.rt.Fatalf("%s came twice, the second time in %v", x, parts)
		}
		if w.place[x] != w.place[id] || n > 0 && parts[n-1].Seq >= x.Seq {
			w.rt.Fatalf("%v came as one", parts)
		}
		if len(parts) > 1 && (slices.Contains([]string{"command", "urgent", "forward"}, w.text[x]) || w.deaths[x] >= lonely) {
			w.rt.Fatalf("%s (%s, %d deaths) came with others", x, w.text[x], w.deaths[x])
		}
		if !slices.Contains(w.waiting, x) {
			w.rt.Fatalf("pushed %s, which had left the buffer", x)
		}
		for _, older := range w.ahead(x) {
			if !again && !slices.Contains(parts, older) && (w.text[older] == "strange") == (w.text[x] == "strange") && !w.unpushable(older) {
				w.rt.Fatalf("%s came before %s (%s): %s", x, older, w.text[older], w.dump())
			}
		}
	}
	at, c, first := w.live.at[place], w.within(id), parts[0]
	if u := w.turns[c]; c != "" && w.born[first].Before(w.since) {
		if !again && !u.over(at) {
			w.rt.Fatalf("%s came %v into a turn, which was heard of last after %v", first, at.Sub(u.began), u.heard.Sub(u.began))
		}
		w.turns[c] = &turn{began: at, heard: at}
	}
	w.parts[id] = parts
}

// unpushable reports whether an entry can only be buried.
func (w *world) unpushable(id relay.BufferID) bool {
	return slices.Contains([]string{"poison", "panic", "unfit", "unsettling"}, w.text[id])
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
	time.Sleep(rapid.SampledFrom([]time.Duration{time.Second, turnEnds, forwardLife + time.Second, turnSilent, forwardLasts}).Draw(rt, "for"))
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
				w.lookJoined(place, false)
				w.inFlight, w.turned = append(w.inFlight, id), w.turned+1
			}
			continue
		}
		if len(w.again) > 0 {
			if id != w.again[0] {
				w.rt.Fatalf("pushed %s, want %s again", id, w.again[0])
			}
			w.lookJoined(place, true)
			w.again = w.again[1:]
			continue
		}
		if w.within(id) == "" && w.text[id] != "strange" && w.text[id] != "urgent" && id.Seq <= w.pushed {
			w.rt.Fatalf("pushed %s after %d", id, w.pushed)
		}
		w.pushed = max(w.pushed, id.Seq)
		w.lookJoined(place, false)
		if w.text[id] == "strange" && !w.wide {
			w.rt.Fatalf("pushed %s, whose bot is not fronted", id)
		}
		w.inFlight = append(w.inFlight, id)
	}
	w.looked = len(pushed)
	for _, id := range idsOf(w.mem.buffered()) { // what has come behind something waits with it
		old := slices.ContainsFunc(w.waiting, func(x relay.BufferID) bool { // a forward that became an event
			return x.Seq < id.Seq && w.text[x] == "forward" && w.within(x) == w.within(id) && time.Since(w.born[x]) >= forwardLasts
		})
		w.behind[id] = w.behind[id] || old || w.text[id] == "strange" && !w.wide || len(w.ahead(id)) > 0
	}
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
		case why == store.DeadPoison && w.unpushable(id):
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
	w.live.pump.lane.mu.Lock()
	single := w.live.pump.single
	w.live.pump.lane.mu.Unlock()
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
		turn := w.turns[w.within(id)]
		aside := id.Seq <= single
		if !turn.over(time.Now()) && (w.born[id].Before(w.since) || w.behind[id] || aside) {
			continue
		}
		if !w.onLive(id) && !w.failed {
			w.rt.Fatalf("%s (%s) waits although %d of %d are in flight: %s", id, w.text[id], len(w.inFlight), w.window, w.dump())
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
	for w.check(); len(w.waiting) > 0; w.check() {
		if len(w.inFlight) == 0 && len(w.forwards()) == 0 {
			time.Sleep(turnSilent)
			continue
		}
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
		for _, id := range w.partsOf(w.inFlight[0]) {
			w.acked[id] = true
		}
		w.inFlight = w.inFlight[1:]
	}
}

// dump is what there is to see when something is wrong. Nothing moves.
func (w *world) dump() string {
	p := w.live.pump
	out := fmt.Sprintf("pushed %v %q\nlast %d, dry %d, told %d, ordinary %d, single %d, window %d, ready %v\n",
		w.live.seen(), w.live.texts(), p.last, p.dry, w.l.told, p.ordinary, p.single, w.window, p.turns.ready)
	for c, t := range p.turns.talks {
		out += fmt.Sprintf("in %v wait %v, in a turn: %v\n", c, t.waiting, t.turn != nil)
	}
	for _, e := range w.mem.buffered() {
		out += fmt.Sprintf("%v %q, %d deaths\n", e.Buffer, textOf(e), e.Deaths)
	}
	return out
}
