package hook

import (
	"context"
	"errors"
	"fmt"
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

// TestManyShareACommit, in order, and nobody is told before his is on disk.
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

func TestWhatIsLateGoesOn(t *testing.T) {
	in := &inbox{takes: 10 * time.Second}
	fed(t, in, func(t *testing.T, f *Feed) {
		began := time.Now()
		if err := f.Take(t.Context(), one(1), 4*time.Second); !errors.Is(err, ErrLate) || time.Since(began) != 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(7 * time.Second)
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
		in.fails = 1000
		began := time.Now()
		if err := f.Take(t.Context(), one(2), 4*time.Second); err == nil || time.Since(began) > 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		in.fails = 0
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
