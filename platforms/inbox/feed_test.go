package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// inbox takes what is handed in, each batch in its time.
type inbox struct {
	takes time.Duration
	fails int // so many times
	mu    sync.Mutex
	calls []int // events of each batch that was taken
	got   []relay.EventID
}

func (in *inbox) Accept(_ context.Context, b platforms.Batch) error {
	time.Sleep(in.takes)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.fails > 0 {
		in.fails--
		return errors.New("full")
	}
	in.calls = append(in.calls, len(b.Events))
	for _, e := range b.Events {
		in.got = append(in.got, e.ID)
	}
	return nil
}

func (in *inbox) failing(times int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.fails = times
}

func (in *inbox) Cursor(context.Context) ([]byte, error) { return nil, nil }

// fed runs test with a feed into in, in a bubble of its own time.
func fed(t *testing.T, in *inbox, test func(t *testing.T, f *Feed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := NewFeed()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { f.Run(ctx, in, func(error) {}) })
		test(t, f)
		cancel()
		wg.Wait()
	})
}

func one(n int) platforms.Batch {
	return platforms.Batch{Events: []relay.Event{{ID: relay.EventID(fmt.Sprint(n))}}}
}

// TestManyShareACommit, in order, and nobody is told before theirs is on disk.
func TestManyShareACommit(t *testing.T) {
	in := &inbox{takes: 10 * time.Millisecond}
	fed(t, in, func(t *testing.T, f *Feed) {
		var wg sync.WaitGroup
		for n := range 200 {
			wg.Go(func() {
				if err := f.Take(t.Context(), one(n), time.Minute); err != nil {
					t.Error(err)
				}
				in.mu.Lock()
				defer in.mu.Unlock()
				found := false
				for _, id := range in.got {
					found = found || id == relay.EventID(fmt.Sprint(n))
				}
				if !found {
					t.Errorf("%d is not there", n)
				}
			})
		}
		wg.Wait()
		if len(in.got) != 200 || len(in.calls) > 8 {
			t.Errorf("%d events in %v", len(in.got), in.calls)
		}
	})
}

// refuser is an inbox that refuses every event once, after some thought.
type refuser struct{ *inbox }

func (in refuser) Accept(ctx context.Context, b platforms.Batch) error {
	if b.Refused != nil {
		for _, e := range b.Events {
			b.Undecided(e.ID)
			b.Refused(e.ID, "no "+string(e.ID))
		}
	}
	return in.inbox.Accept(ctx, b)
}

// TestRefusalsReachTheirRequest, however many share a commit.
func TestRefusalsReachTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, ctx := NewFeed(), t.Context()
		var mu sync.Mutex
		told := map[int]string{}
		var wg sync.WaitGroup
		for n := range 4 {
			b := platforms.Batch{Events: []relay.Event{{ID: relay.EventID(fmt.Sprint("e", n))}}}
			if n != 2 { // nobody wants to know
				b.Undecided = func(id relay.EventID) {
					mu.Lock()
					defer mu.Unlock()
					told[n] += string(id) + " waits;"
				}
				b.Refused = func(id relay.EventID, words string) {
					mu.Lock()
					defer mu.Unlock()
					told[n] += string(id) + " " + words + ";"
				}
			}
			wg.Go(func() {
				if err := f.Take(ctx, b, time.Minute); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		run, cancel := context.WithCancel(ctx)
		in := &inbox{}
		var feeding sync.WaitGroup
		feeding.Go(func() { f.Run(run, refuser{in}, func(error) {}) })
		wg.Wait()
		cancel()
		feeding.Wait()
		if len(in.calls) != 1 || len(told) != 3 || told[0] != "e0 waits;e0 no e0;" || told[1] != "e1 waits;e1 no e1;" || told[3] != "e3 waits;e3 no e3;" {
			t.Errorf("%v, told %v", in.calls, told)
		}
	})
}

func TestWhatIsLateGoesOn(t *testing.T) {
	in := &inbox{takes: 10 * time.Second}
	fed(t, in, func(t *testing.T, f *Feed) {
		began := time.Now()
		if err := f.Take(t.Context(), one(1), 4*time.Second); !errors.Is(err, ErrLate) || time.Since(began) != 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(7 * time.Second)
		in.mu.Lock()
		defer in.mu.Unlock()
		if len(in.got) != 1 {
			t.Errorf("%v", in.got)
		}
	})
}

func TestWhatFailsIsTriedAgainInTime(t *testing.T) {
	in := &inbox{fails: 3}
	fed(t, in, func(t *testing.T, f *Feed) {
		if err := f.Take(t.Context(), one(1), 10*time.Second); err != nil {
			t.Error(err)
		}
		in.failing(1000)
		began := time.Now()
		if err := f.Take(t.Context(), one(2), 4*time.Second); err == nil || time.Since(began) > 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		in.failing(0)
		if err := f.Take(t.Context(), one(3), 10*time.Second); err != nil {
			t.Error(err)
		}
	})
}

func TestNobodyWaitsForTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFeed() // nobody runs it
		var wg sync.WaitGroup
		for n := range maxWaiting {
			wg.Go(func() {
				if err := f.Take(t.Context(), one(n), time.Second); !errors.Is(err, ErrLate) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if err := f.Take(t.Context(), one(0), time.Second); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
		wg.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := NewFeed().Take(ctx, one(0), time.Second); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestWhoWaitsIsToldTheEnd: a bot that has ended takes nothing, and keeps nobody waiting.
func TestWhoWaitsIsToldTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, in := NewFeed(), &hung{}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { f.Run(ctx, in, func(error) {}) })
		began := time.Now()
		for n := range 3 {
			wg.Go(func() {
				if err := f.Take(t.Context(), one(n), time.Minute); err == nil {
					t.Errorf("%d was taken", n)
				}
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if err := f.Take(t.Context(), one(4), time.Minute); !errors.Is(err, ErrEnded) || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// hung is an inbox whose disk never answers.
type hung struct{ inbox }

func (*hung) Accept(ctx context.Context, _ platforms.Batch) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestLargeOnesAreFew: what waits for a disk that hangs is bounded in bytes too, and gives its place back.
func TestLargeOnesAreFew(t *testing.T) {
	in := &inbox{takes: time.Minute}
	fed(t, in, func(t *testing.T, f *Feed) {
		large := platforms.Batch{
			Events:      []relay.Event{{ID: "1", Text: strings.Repeat("x", maxBytes/8)}},
			Undecodable: []platforms.Undecodable{{Raw: make([]byte, maxBytes/8)}},
		}
		busy, late := 0, 0
		for range 6 {
			switch err := f.Take(t.Context(), large, time.Second); {
			case errors.Is(err, ErrBusy):
				busy++
			case errors.Is(err, ErrLate):
				late++
			}
		}
		if late != 4 || busy != 2 {
			t.Errorf("%d taken, %d refused", late, busy)
		}
		time.Sleep(10 * time.Minute)
		if n := f.bytes.Load(); n != 0 {
			t.Errorf("%d bytes are still counted", n)
		}
		huge := platforms.Batch{Undecodable: []platforms.Undecodable{{Raw: make([]byte, maxBytes+1)}}}
		if err := f.Take(t.Context(), huge, 2*time.Minute); err != nil {
			t.Errorf("one that is larger alone: %v", err)
		}
	})
}
