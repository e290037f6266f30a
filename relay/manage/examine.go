package manage

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

const (
	// examineWithin bounds the questions to the networks: doctor has five seconds in all.
	examineWithin = 3500 * time.Millisecond
	// clockMayBeOff is how much this machine's clock may differ from a network's.
	clockMayBeOff = 30 * time.Second
)

// Examine asks all bots' networks at once about faults of the bots, and returns the findings after examineWithin at the
// latest. A bot that cannot ask its network has none.
func Examine(ctx context.Context, bots []platforms.Bot, granted []relay.Place) (out finding.List) {
	ctx, cancel := context.WithTimeout(ctx, examineWithin)
	defer cancel()
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex // guards out and off
		off time.Duration
	)
	for _, p := range bots {
		e, ok := p.(platforms.Examiner)
		if !ok {
			continue
		}
		wg.Go(func() {
			got := e.Examine(ctx, granted)
			ours := time.Now()
			mu.Lock()
			defer mu.Unlock()
			out = append(out, got.Findings...)
			if got.Clock.IsZero() {
				return
			}
			if d := ours.Sub(got.Clock); d.Abs() > off.Abs() {
				off = d
			}
		})
	}
	wg.Wait()
	return append(out, clockFinding(off)...)
}

// clockFinding returns the finding about a clock that is ahead by off, if that is too much.
func clockFinding(off time.Duration) finding.List {
	if off.Abs() <= clockMayBeOff {
		return nil
	}
	way := "ahead"
	if off < 0 {
		way = "behind"
	}
	far := off.Abs().Round(time.Second)
	span := far.String()
	if far < time.Minute {
		span = fmt.Sprintf("%.0f s", far.Seconds())
	}
	return finding.ClockOff.Alone("clock", "this machine's clock is "+span+" "+way,
		"let it be set from the network: `timedatectl set-ntp true`")
}
