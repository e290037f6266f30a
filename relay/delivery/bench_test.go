package delivery

import (
	"context"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store"
)

// BenchmarkDrain is one entry of 1 KiB on its way out of a backlog: read, pushed, acknowledged,
// deleted and synced, before the next one.
func BenchmarkDrain(b *testing.B) {
	db := openStore(b)
	d := newDisk(b, db, "i1")
	const backlog = 1000
	text := strings.Repeat("x", 1024)
	for b.Loop() {
		b.StopTimer()
		for range backlog {
			d.append(text)
		}
		b.StartTimer()
		drain(b, NewLane("i1", db.Lanes, Options{}), backlog)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/backlog, "µs/entry")
	if err := db.Close(); err != nil {
		b.Error(err)
	}
}

func drain(b *testing.B, l *Lane, n int) {
	ctx, stop := context.WithCancel(b.Context())
	pushed := make(chan relay.BufferID, 1)
	p := l.NewPump(Outlet{Push: func(_ context.Context, e store.Entry, _ func(bool)) error {
		pushed <- e.Buffer
		return nil
	}})
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	for range n {
		if counted, err := p.Ack(ctx, <-pushed); !counted || err != nil {
			b.Fatalf("Ack = %v, %v, want true, nil", counted, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
