package discord

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/testdata/long"
)

// TestTwentyFourHours: a day of faults of every kind. Nothing that was said is lost, the budget
// holds, and no goroutine is left behind.
func TestTwentyFourHours(t *testing.T) {
	for seed := range long.Pick[uint64](1, 6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { aDay(t, seed) })
	}
}

func aDay(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		afterEpoch()
		f := newFakeDiscord()
		rt := f.pipe(t)
		f.guilds = []obj{testGuild()}
		f.rest = f.listings
		open := func() *Bot { return f.testBot(t, rt, io.Discard, nil) }
		rnd := rand.New(rand.NewPCG(seed, 7))

		in := newTestInbox()
		in.places = places("500", "910", "911")
		var sick atomic.Bool
		in.judge = func(ctx context.Context, _ platforms.Batch) error {
			if sick.Load() {
				return errStall
			}
			return ctx.Err()
		}
		r := run(t, open(), in)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		goroutines := runtime.NumGoroutine()

		chats := []string{"500", "910", "911"}
		var said []string
		faults, restarts := 0, 0
		nextFault := time.Now()
		for end := time.Now().Add(day); time.Now().Before(end); {
			time.Sleep(time.Duration(rnd.Int64N(int64(time.Minute))))
			text := fmt.Sprintf("line %d", len(said)+1)
			said = append(said, text)
			f.say(chats[rnd.IntN(len(chats))], text)
			if time.Now().Before(nextFault) {
				continue
			}
			nextFault = time.Now().Add(time.Duration(rnd.Int64N(int64(20 * time.Minute))))
			faults++
			switch rnd.IntN(10) {
			case 0:
				f.cut()
			case 1:
				f.order(t.Context(), obj{"op": 7}, 0)
			case 2:
				f.order(t.Context(), obj{"op": 9, "d": true}, 0)
			case 3:
				f.order(t.Context(), obj{"op": 9, "d": false}, 0)
			case 4:
				codes := []websocket.StatusCode{1000, 1001, 4000, 4001, 4002, 4003, 4005, 4007, 4008, 4009}
				f.order(t.Context(), nil, codes[rnd.IntN(len(codes))])
			case 5: // the network is gone, perhaps for longer than Discord remembers the session
				f.set(func() { f.down = true })
				f.cut()
				out := time.Duration(rnd.Int64N(int64(10 * time.Minute)))
				time.Sleep(out)
				if out > 2*time.Minute {
					f.forget()
				}
				f.set(func() { f.down = false })
			case 6: // half-open: nothing comes any more
				f.set(func() { f.deafAcks = true })
				time.Sleep(2 * time.Minute)
				f.set(func() { f.deafAcks = false })
			case 7: // the disk
				sick.Store(true)
				time.Sleep(time.Duration(rnd.Int64N(int64(5 * time.Minute))))
				sick.Store(false)
			case 8: // the process
				restarts++
				r.end(t)
				time.Sleep(time.Duration(rnd.Int64N(int64(time.Minute))))
				r = run(t, open(), in)
			case 9:
				f.cut()
				f.forget()
			}
		}
		time.Sleep(2 * time.Hour) // a new session may have to wait for its turn
		synctest.Wait()

		got := in.texts()
		slices.Sort(got)
		slices.Sort(said)
		if !slices.Equal(got, said) {
			t.Errorf("%d lines accepted, %d said; the first that differs: %q", len(got), len(said), firstMissing(said, got))
		}
		identifies := 0
		for _, at := range f.counts().identify {
			if time.Since(at) < day+2*time.Hour {
				identifies++
			}
		}
		if identifies > maxIdentifies {
			t.Errorf("%d identifies in a day", identifies)
		}
		if s := r.p.Status(); s.State != platforms.Connected {
			t.Errorf("status at the end %+v", s)
		}
		// One connection more or less may be kept for the next request; each is two goroutines a side.
		if n := runtime.NumGoroutine(); n > goroutines+4 {
			t.Errorf("%d goroutines at the end, %d at the beginning", n, goroutines)
			buf := make([]byte, 1<<20)
			t.Logf("%s", buf[:runtime.Stack(buf, true)])
		}
		r.end(t)
		c := f.counts()
		if slices.Contains(c.closes, 1000) || slices.Contains(c.closes, 1001) {
			t.Error("closed with 1000 or 1001")
		}
		t.Logf("%d lines, %d faults, %d restarts, %d identifies, %d resumes, %d connections",
			len(said), faults, restarts, identifies, c.resumes, c.conns)
	})
}

func firstMissing(want, got []string) string {
	for _, s := range want {
		if _, ok := slices.BinarySearch(got, s); !ok {
			return s
		}
	}
	return ""
}
