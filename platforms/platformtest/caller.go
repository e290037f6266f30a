package platformtest

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
)

// Flips returns a copy of s for each of its bits, with that bit changed: a check of signatures must reject all of them.
func Flips(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := range len(s) * 8 {
			b := []byte(s)
			b[at/8] ^= 1 << (at % 8)
			if !yield(string(b)) {
				return
			}
		}
	}
}

// pauseOfCaller is how long a Caller waits before it calls again.
const pauseOfCaller = 5 * time.Millisecond

// Caller is a network that calls its bot, for a Harness: it makes one request after the other, each again and again
// until it is answered with success. The zero value is ready.
type Caller struct {
	mu      sync.Mutex // guards waiting
	waiting []func() platforms.HookRequest
	bot     atomic.Pointer[platforms.Hook]
	deaf    atomic.Bool // the next answer of the bot gets lost
}

// Calls makes the caller call the bot from now on. It is for a Harness's Open.
func (c *Caller) Calls(bot platforms.Hook) { c.bot.Store(&bot) }

// Say queues a request behind those that wait. request is called for every try, since networks sign each try anew.
func (c *Caller) Say(request func() platforms.HookRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, request)
}

// Drop lets the answer to the next request get lost.
func (c *Caller) Drop() { c.deaf.Store(true) }

// Start makes c call the bot until the test ends.
func (c *Caller) Start(t *testing.T) {
	var calling sync.WaitGroup
	calling.Go(func() { c.run(t.Context()) })
	t.Cleanup(calling.Wait)
}

func (c *Caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		c.mu.Lock()
		var request func() platforms.HookRequest
		if len(c.waiting) > 0 {
			request = c.waiting[0]
		}
		c.mu.Unlock()
		bot := c.bot.Load()
		if request == nil || bot == nil || !c.call(ctx, *bot, request()) {
			backoff.Pause(ctx, pauseOfCaller)
			continue
		}
		c.mu.Lock()
		c.waiting = c.waiting[1:]
		c.mu.Unlock()
	}
}

// call makes one request, and reports whether the bot's answer is a success and did not get lost.
func (c *Caller) call(ctx context.Context, bot platforms.Hook, r platforms.HookRequest) bool {
	status := bot.Receive(ctx, r).Status
	return !c.deaf.Swap(false) && status >= 200 && status < 300
}
