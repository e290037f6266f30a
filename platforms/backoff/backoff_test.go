package backoff

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestNext(t *testing.T) {
	b := Backoff{First: time.Second, Max: time.Minute}
	for i, top := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		top *= time.Second
		if d := b.Next(); d > top || d < top/2 {
			t.Errorf("pause %d = %s, want %s to %s", i, d, top/2, top)
		}
	}
	b.Reset()
	if d := b.Next(); d > time.Second {
		t.Errorf("pause after reset = %s", d)
	}
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Pause(t.Context(), time.Hour) || time.Since(began) != time.Hour {
			t.Errorf("paused for %s, want an hour", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if Pause(ctx, time.Hour) || time.Since(began) != time.Minute {
			t.Errorf("paused for %s, want to the end of the context", time.Since(began))
		}
	})
}
