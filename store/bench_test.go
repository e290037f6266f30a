package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/store/history"
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
// with an instance of its own; in the last row everyone has their own.
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
			e, ok, err := db.Lanes.Next(b.Context(), "inst", after)
			if err != nil || !ok {
				b.Fatal(ok, err)
			}
			after = e.Buffer.Seq
			if err := acknowledge(b.Context(), db, "inst", e.Buffer); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		b.ReportMetric(float64(n)/b.Elapsed().Seconds()*float64(b.N), "drops/s")
		closeChecked(b, db)
	}
}

// BenchmarkMessage is the life of a message: accepted, read, dropped. One producer is what one
// message per second costs, for then nobody shares a commit.
func BenchmarkMessage(b *testing.B) {
	for _, producers := range []int{1, 64} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			db := openTest(b, Options{})
			for p := range min(producers, 4) {
				enroll(b, db, relay.InstanceID(fmt.Sprintf("inst%d", p)))
			}
			written, before := bytesWritten(), db.Stats()
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for p := range producers {
				wg.Go(func() {
					inst := relay.InstanceID(fmt.Sprintf("inst%d", p%4))
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if err := live(b, db, inst, n); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			after := db.Stats()
			b.ReportMetric(float64(after.Commits-before.Commits)/float64(b.N), "commits/op")
			b.ReportMetric(float64(bytesWritten()-written)/float64(b.N)/1024, "KiB-written/op")
		})
	}
}

// live has inst accept and drop an event of 1 KiB.
func live(t testing.TB, db *DB, inst relay.InstanceID, n int64) error {
	a := acceptFor(event(strconv.FormatInt(1_000_000_000+n, 10), 1024), inst)
	a.Bot.ID = relay.BotID(inst)
	a.Cursor = strconv.AppendInt(nil, n, 10)
	out, err := db.Accept(ctxOf(t), a)
	if err != nil {
		return err
	}
	return acknowledge(ctxOf(t), db, inst, out.Items[0].Buffers[0])
}

// BenchmarkAcceptDuringBackup is how long an Accept takes at one every 2 ms, on a file of 128 MiB
// that is being backed up to a disk, again and again, and beside it when it is not.
func BenchmarkAcceptDuringBackup(b *testing.B) {
	db := openTest(b, Options{Limits: Limits{MaxBytes: 1 << 40}})
	enroll(b, db, "inst")
	for n := range 128 {
		acceptOne(b, db, event(fmt.Sprint("big", n), 1<<20), "inst")
	}
	var events int64
	for _, busy := range []bool{false, true} {
		b.Run(fmt.Sprintf("backup=%v", busy), func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			backups := 0
			var wg sync.WaitGroup
			if busy {
				wg.Go(func() {
					for ; ctx.Err() == nil; backups++ {
						f, err := os.Create(filepath.Join(b.TempDir(), "backup"))
						if err != nil {
							b.Error(err)
							return
						}
						if _, err := db.Backup(ctx, f); err != nil && ctx.Err() == nil {
							b.Error(err)
						}
						_ = f.Close()
					}
				})
			}
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			took := make([]time.Duration, 0, b.N)
			b.ResetTimer()
			for range b.N {
				<-tick.C
				events++
				began := time.Now()
				if err := live(b, db, "inst", events); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			b.StopTimer()
			cancel()
			wg.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-max")
			b.ReportMetric(float64(backups), "backups")
		})
	}
}

// BenchmarkHistory asks the history of a million messages, each of which was taken and answered, as they are stored one
// after the other in thirty days, for those that one person among five wrote to one gateway of three, and others.
func BenchmarkHistory(b *testing.B) {
	clock := newClock()
	db := openTest(b, Options{Now: clock.now})
	const messages, together = 1_000_000, 20_000
	chat := relay.Chat{Bot: relay.Bot{Platform: "telegram", ID: "7000001"}, ID: "12345678"}
	size := db.Stats().FileBytes
	for from := 0; from < messages; from += together {
		err := db.change(b.Context(), nil, "fill", func(t *tx) error {
			for n := from; n < from+together; n++ {
				clock.add(history.Kept / (messages + 10))
				c := history.Came{
					At: clock.now(), Seq: uint64(n + 1), Verdict: history.Verdict{Instance: relay.InstanceID(fmt.Sprint("home", n%3)), Why: "delivered"},
					Of: history.Event{ID: relay.EventID(fmt.Sprintf("12345678:%d", n)), Chat: chat, Type: relay.ChatDM, User: relay.UserID(fmt.Sprint("1234567", n%5))},
				}
				var one history.Batch
				one.Came(c)
				one.Taken(c.At, c.Instance, c.Seq)
				stored, err := db.History.Ride(t.Writer, one, t.room(history.Newest))
				if err != nil {
					return err
				}
				stored()
				db.History.Said(history.Said{At: c.At, Instance: c.Instance, Chat: chat, Op: relay.OpSend, Message: relay.MessageID(fmt.Sprint(n)), To: c.Of.ID, State: history.Sent})
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	size = db.Stats().FileBytes - size
	who := func(w history.Who) bool { return w.User == "12345670" && w.Instance == "home1" }
	for name, q := range map[string]history.Query{
		"person,gateway":     {Who: who, Last: 1000},
		"person,gateway,2d":  {Who: who, Since: clock.now().Add(-2 * day)},
		"person,gateway,30d": {Who: who},
		"nobody":             {Who: func(history.Who) bool { return false }},
		"event":              {Event: "12345678:5000"},
		"newest ten":         {Last: 10},
	} {
		b.Run(name, func(b *testing.B) {
			found := 0
			for b.Loop() {
				all, err := db.History.List(b.Context(), q)
				if err != nil {
					b.Fatal(err)
				}
				found = len(all)
			}
			b.ReportMetric(float64(found), "found")
			b.ReportMetric(float64(size)/messages, "file-bytes/message")
		})
	}
}
