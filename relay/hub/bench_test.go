package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/wire"
	"github.com/hermes-connector/hermes-connector/store"
)

func benchEvent(r *rig, n int) relay.Event {
	id := fmt.Sprint("e", n)
	return relay.Event{
		ID: relay.EventID(id), Bot: r.bot, MessageID: relay.MessageID(id), Type: relay.TypeText, At: time.Now(),
		Text:   strings.Repeat("x", 1<<10),
		Source: relay.Source{Platform: local.LoopbackID, ChatID: "@ann", ChatType: relay.ChatDM, UserID: "ann", UserName: "Ann"},
	}
}

// BenchmarkAcceptToFrame is the time from the platform's hand-in to the frame read from the
// socket by the gateway, durable first, at 100 events a second.
func BenchmarkAcceptToFrame(b *testing.B) {
	r := newRig(b)
	r.enroll("home", "ann")
	g := r.dial("home")
	in := r.hub.in.Inbox(r.bot)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		<-tick.C
		began := time.Now()
		if err := in.Accept(b.Context(), platforms.Batch{Events: []relay.Event{benchEvent(r, n)}}); err != nil {
			b.Fatal(err)
		}
		f := g.inbound()
		took = append(took, time.Since(began))
		g.send(wire.InboundAck{Buffer: f.Buffer})
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkDrain10k is the time until a backlog of 10,000 messages of 1 KiB, of a conversation each, was delivered and
// acknowledged one by one over a socket.
func BenchmarkDrain10k(b *testing.B) {
	const backlog = 10_000
	for b.Loop() {
		b.StopTimer()
		r := newRig(b)
		r.enroll("home", "ann")
		in := r.hub.in.Inbox(r.bot)
		for n := 0; n < backlog; n += 100 {
			var batch platforms.Batch
			for i := range 100 {
				ev := benchEvent(r, n+i)
				ev.Source.ThreadID = relay.ThreadID(ev.ID)
				batch.Events = append(batch.Events, ev)
			}
			if err := in.Accept(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		g := r.dial("home")
		for range backlog {
			g.send(wire.InboundAck{Buffer: g.inbound().Buffer})
		}
	}
}

// BenchmarkPressAndMessage is what an event costs from the platform's hand-in to its acknowledgement on a real disk, in
// turns: an ordinary message in a shared chat, and a press that answers a prompt there, with its buttons' end. Thirty
// other prompts are open.
func BenchmarkPressAndMessage(b *testing.B) {
	p := newSalonIn(b, b.TempDir(), store.Options{})
	for n := range 30 {
		p.mustAsk("home", "hall", "choice", fmt.Sprint("open", n))
	}
	var press, message []time.Duration
	for n := 0; b.Loop(); n++ {
		id := fmt.Sprint("p", n)
		asked := p.press("ann", "hall", id, "yes", p.mustAsk("home", "hall", "choice", id))
		plain := p.press("ann", "hall", "", "", "")
		plain.Prompt, plain.Traits.Press = nil, false
		press = append(press, benchEach(b, p, asked))
		message = append(message, benchEach(b, p, plain))
	}
	slices.Sort(press)
	slices.Sort(message)
	b.ReportMetric(float64(press[b.N/2].Microseconds()), "press-p50-µs")
	b.ReportMetric(float64(message[b.N/2].Microseconds()), "message-p50-µs")
	b.ReportMetric(float64(press[b.N/2])/float64(message[b.N/2]), "press/message")
}

// benchEach is how long it takes.
func benchEach(b *testing.B, p *salon, ev relay.Event) time.Duration {
	b.Helper()
	began := time.Now()
	p.must(p.hub.in.Inbox(p.bot.bot).Accept(b.Context(), platforms.Batch{Events: []relay.Event{ev}}))
	e, ok, err := p.db.Lanes.Next(b.Context(), "home", 0)
	if err != nil || !ok {
		b.Fatalf("nothing to deliver: %v, %s", err, p.verdict(ev.ID))
	}
	p.must(p.db.Lanes.Ack(b.Context(), "home", e.Buffer))
	p.attached["home"].taken(b.Context(), e.About)
	p.settle()
	return time.Since(began)
}
