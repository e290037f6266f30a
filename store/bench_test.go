package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// rawSyncs is how many appends of 1 KiB, each followed by a sync, the disk under dir takes per
// second: what a durable append costs without a database.
func rawSyncs(b *testing.B, dir string) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const n = 1000
	block := make([]byte, 1024)
	began := time.Now()
	for range n {
		if _, err := f.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := dataSync(f); err != nil {
			b.Fatal(err)
		}
	}
	return n / time.Since(began).Seconds()
}

// BenchmarkAppend is Accept of one event of 1 KiB per call. The producers share four bots, each
// with an instance of its own; in the last row everyone has his own, which makes every commit
// touch two pages per op.
func BenchmarkAppend(b *testing.B) {
	for _, tc := range []struct{ producers, bots int }{{1, 1}, {8, 4}, {64, 4}, {64, 64}} {
		b.Run(fmt.Sprintf("producers=%d/bots=%d", tc.producers, tc.bots), func(b *testing.B) {
			db := openTest(b, Options{Limits: Limits{MaxEntries: 1 << 30, MaxBytes: 1 << 40}})
			for p := range tc.bots {
				enroll(b, db, relay.InstanceID(fmt.Sprintf("inst%02d", p)))
			}
			raw := rawSyncs(b, b.TempDir())
			written := bytesWritten()
			before := db.Stats()
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for p := range tc.producers {
				wg.Go(func() {
					inst := relay.InstanceID(fmt.Sprintf("inst%02d", p%tc.bots))
					for {
						n := next.Add(1)
						if n > int64(b.N) {
							return
						}
						a := acceptFor(event(strconv.FormatInt(1_000_000_000+n, 10), 1024), inst)
						a.Bot.ID = relay.BotID(inst)
						if _, err := db.Accept(b.Context(), a); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			after := db.Stats()
			rate := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "ops/s")
			b.ReportMetric(rate/raw, "x-raw-fdatasync")
			b.ReportMetric(float64(after.Ops-before.Ops)/float64(max(1, after.Commits-before.Commits)), "ops/commit")
			b.ReportMetric(float64(bytesWritten()-written)/float64(b.N)/1024, "KiB-written/op")
		})
	}
}

// BenchmarkDrain10k empties a lane of 10,000 entries of 1 KiB, one after the other.
func BenchmarkDrain10k(b *testing.B) {
	for range b.N {
		b.StopTimer()
		db := openTest(b, Options{})
		enroll(b, db, "inst")
		const n = 10_000
		for at := 0; at < n; at += 200 {
			a := Accept{Bot: bot}
			for k := range 200 {
				a.Items = append(a.Items, acceptFor(event(strconv.Itoa(1_000_000+at+k), 1024), "inst").Items...)
			}
			if _, err := db.Accept(b.Context(), a); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		var after uint64
		for range n {
			e, ok, err := db.NextDelivery(b.Context(), "inst", after)
			if err != nil || !ok {
				b.Fatal(ok, err)
			}
			after = e.Buffer.Seq
			if err := db.DropDelivery(b.Context(), "inst", e.Buffer); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		b.ReportMetric(float64(n)/b.Elapsed().Seconds()*float64(b.N), "drops/s")
		closeChecked(b, db)
	}
}

// BenchmarkMessage is one message as at one per second: accepted, read, dropped.
func BenchmarkMessage(b *testing.B) {
	db := openTest(b, Options{})
	enroll(b, db, "inst")
	written := bytesWritten()
	b.ResetTimer()
	for n := range b.N {
		a := acceptFor(event(strconv.Itoa(1_000_000_000+n), 1024), "inst")
		a.Cursor = strconv.AppendInt(nil, int64(n), 10)
		out, err := db.Accept(b.Context(), a)
		if err != nil {
			b.Fatal(err)
		}
		if err := db.DropDelivery(b.Context(), "inst", out.Items[0].Buffers[0]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(bytesWritten()-written)/float64(b.N)/1024, "KiB-written/op")
}
