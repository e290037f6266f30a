package recent

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestValues: a new key drops the oldest one, even if the oldest was put again last.
func TestValues(t *testing.T) {
	r := New[int, string](3)
	for k, v := range []string{"a", "b", "c"} {
		r.Put(k, v)
	}
	r.Put(0, "A")
	for k, want := range []string{"A", "b", "c"} {
		if got, ok := r.Get(k); got != want || !ok {
			t.Errorf("%d: %q, %t, want %q", k, got, ok, want)
		}
	}
	for k := 3; k < 8; k++ {
		r.Put(k, "new")
		for old := range k + 1 {
			if _, ok := r.Get(old); ok != (old > k-3) {
				t.Errorf("after %d, %d is remembered: %t", k, old, ok)
			}
		}
	}
}

// TestWait: it waits for the value of its own key, or for the end of ctx.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New[int, string](3)
		got := make(chan string)
		go func() {
			v, _ := r.Wait(t.Context(), 1)
			got <- v
		}()
		synctest.Wait()
		r.Put(2, "another")
		synctest.Wait()
		select {
		case v := <-got:
			t.Fatalf("%q came for another key", v)
		default:
		}
		r.Put(1, "it")
		if v := <-got; v != "it" {
			t.Errorf("%q", v)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if v, ok := r.Wait(over, 3); ok {
			t.Errorf("after the end: %q", v)
		}
	})
}
