package mcp

import (
	"sync"
	"testing"
	"time"
)

// TestARequestIsClosedOnce: if a person and a client answer at the same time, only one of the answers counts.
func TestARequestIsClosedOnce(t *testing.T) {
	var a approvals
	for range 2000 {
		a.add(approval{request: request{ID: "abcde"}, asked: time.Now()})
		var wg sync.WaitGroup
		var closed [4]bool
		for i := range closed {
			wg.Go(func() { closed[i] = a.close("abcde") })
		}
		wg.Wait()
		n := 0
		for _, was := range closed {
			if was {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%d closed the same request", n)
		}
	}
}
