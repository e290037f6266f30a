package cluster

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/testdata/postgres"
)

// TestTheEnginesClockJumps: back by a day, nobody waits for who died before, nor for their name, and who lives leads on; ahead by
// a day, another node may lead. What was confirmed is there all the same.
func TestTheEnginesClockJumps(t *testing.T) {
	t.Parallel()
	pg, ok := postgres.StartClocked(t, quick)
	if !ok {
		t.Skip("the engine's clock cannot be set")
	}
	const day, most, pause = 24 * time.Hour, 10, testLease / 20 // for longer than it is from one renewal to the next
	pg.SetClock(day)
	dir := t.TempDir()
	a := starts(t, pg.DSN(pg.Port), "a", dir)
	a.leads()
	confirmed := a.fills("a day ahead", 3)
	a.dies()
	pg.SetClock(0)
	a = starts(t, pg.DSN(pg.Port), "a", dir)
	a.leads()
	a.has(confirmed)
	pg.SetClock(-day)
	for n := range most {
		confirmed = append(confirmed, a.fills(fmt.Sprint("a day behind ", n), 1)...)
		time.Sleep(pause)
	}
	b := joins(t, pg, "b")
	b.competes()
	pg.SetClock(0)
	var err error
	for n := 0; n < most && err == nil; n++ {
		k := fmt.Sprint("ahead again ", n)
		if err = a.put(k); err == nil {
			confirmed = append(confirmed, k)
		}
		time.Sleep(pause)
	}
	if err == nil {
		a.ends()
	} else if a.dies(); !errors.Is(err, ErrFenced) {
		t.Fatal(err)
	}
	select {
	case <-b.led:
	case <-time.After(time.Minute):
		t.Fatal("nobody leads")
	}
	b.has(confirmed)
	b.ends()
}
