package hub

import (
	"context"
	"sync"

	"github.com/hermes-connector/hermes-connector/relay"
)

// wielded are the capabilities through which an answer is under way. Methods may be called from any
// goroutine.
type wielded struct {
	mu    sync.Mutex // guards under
	under map[capabilityKey]chan struct{}
}

// capabilityKey is a capability.
type capabilityKey struct {
	bot   relay.Bot
	event relay.EventID
}

// begin waits until no other answer is under way through the capability. The caller calls end once its
// own is over. The error is ctx's.
func (w *wielded) begin(ctx context.Context, key capabilityKey) (end func(), err error) {
	for {
		w.mu.Lock()
		over, busy := w.under[key]
		if !busy {
			over = make(chan struct{})
			if w.under == nil {
				w.under = make(map[capabilityKey]chan struct{})
			}
			w.under[key] = over
			w.mu.Unlock()
			return func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				delete(w.under, key)
				close(over)
			}, nil
		}
		w.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
