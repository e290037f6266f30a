package discord

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/discord/rest"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxHeld and maxHeldBytes bound the events that came over HTTP and wait for the disk: Discord keeps none of them.
	// Both lie well below the bounds of the feeder's queue, which the events of the socket share.
	maxHeld      = 1000
	maxHeldBytes = 6 << 20
	// holdFor is how long such an event may wait. Its token lasts a little longer, so that the placeholder can be
	// removed.
	holdFor = rest.TokenFor - 30*time.Second
	// discardTime bounds the removal of one placeholder; maxDiscards is how many are removed at once.
	discardTime = 5 * time.Second
	maxDiscards = 32
)

// held is one event from HTTP, from when it is put into the feeder's queue until the feeder is done with it.
type held struct {
	item  item
	until time.Time // when the event is given up
	gone  bool      // given up
	over  bool      // the feeder is done with it
}

// holding keeps the events from HTTP that are not stored yet. The feeder gets them through its queue, like the events
// of the socket; holding gives up the events that cannot be stored in time. Methods may be called from any goroutine,
// and do not wait.
type holding struct {
	changed chan struct{} // capacity 1: one wake-up stands for any number of changes

	mu      sync.Mutex // guards the fields below
	queue   *queue     // the feeder's queue; nil: no feeder runs, and take refuses new items
	all     []*held    // in the order in which they came
	bytes   int
	orphans []*interaction // interactions whose placeholders nobody will replace
}

func newHolding() *holding { return &holding{changed: make(chan struct{}, 1)} }

// open makes q the queue into which take puts items; nil: from now on take refuses new items.
func (h *holding) open(q *queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = q
}

// take puts i into the feeder's queue. It returns false if too many events or bytes are held, or if no feeder runs. For
// an interaction that is held already it only returns true.
func (h *holding) take(i item) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i.press != nil && slices.ContainsFunc(h.all, func(x *held) bool { return x.item.press != nil && x.item.press.ID == i.press.ID }) {
		return true
	}
	if h.queue == nil || len(h.all) >= maxHeld || h.bytes+len(i.data) > maxHeldBytes {
		return false
	}
	x := &held{until: time.Now().Add(holdFor)}
	i.held = x
	x.item = i
	h.all = append(h.all, x)
	h.bytes += len(i.data)
	h.queue.put(i)
	h.wakeLocked()
	return true
}

func (h *holding) wakeLocked() {
	select {
	case h.changed <- struct{}{}:
	default: // a wake-up waits already
	}
}

// release removes those of the items that came over HTTP, because they are stored or never will be.
func (h *holding) release(items []item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range items {
		if i.held != nil {
			i.held.over = true
			h.bytes -= len(i.data)
		}
	}
	h.all = slices.DeleteFunc(h.all, func(x *held) bool { return x.over })
}

// givenUp reports whether i was given up.
func (h *holding) givenUp(i item) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return i.held != nil && i.held.gone
}

// prune removes from b the events and the capabilities of those interactions among items that were given up.
func (h *holding) prune(b *platforms.Batch, items []item) {
	for _, i := range items {
		if i.press == nil || !h.givenUp(i) {
			continue
		}
		at := slices.IndexFunc(b.Capabilities, func(c platforms.Capability) bool { return c.ID == i.press.ID.String() })
		if at < 0 {
			continue
		}
		ev := b.Capabilities[at].Event
		b.Capabilities = slices.Delete(b.Capabilities, at, at+1)
		b.Events = slices.DeleteFunc(b.Events, func(e relay.Event) bool { return e.ID == ev })
	}
}

// left returns the items that are still held and were not given up.
func (h *holding) left() (items []item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.all {
		if !x.gone {
			items = append(items, x.item)
		}
	}
	return items
}

// orphan notes that nobody will answer i.
func (h *holding) orphan(i *interaction) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orphans = append(h.orphans, i)
	h.wakeLocked()
}

// due gives up the events that may not wait beyond now. It returns the interactions whose placeholders are to be
// removed, how many events were given up, and when to call due again (zero: no event waits).
func (h *holding) due(now time.Time) (orphans []*interaction, givenUp int, next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.all {
		switch {
		case x.gone:
		case now.Before(x.until):
			if next.IsZero() {
				next = x.until
			}
		default:
			x.gone = true
			givenUp++
			if x.item.press != nil {
				h.orphans = append(h.orphans, x.item.press)
			}
		}
	}
	orphans, h.orphans = h.orphans, nil
	return orphans, givenUp, next
}

// tidy gives up events that cannot be stored in time, and removes the placeholders that nobody will replace, until ctx
// ends.
func (p *Bot) tidy(ctx context.Context) {
	for ctx.Err() == nil {
		orphans, givenUp, next := p.holding.due(time.Now())
		p.lost(givenUp)
		p.takeAway(ctx, orphans)
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-p.holding.changed:
		case <-due:
		case <-ctx.Done():
		}
	}
}

// lost logs how many interactions could not be stored.
func (p *Bot) lost(n int) {
	if n > 0 {
		p.log.Error("discord interactions not stored while their tokens lasted; they are lost", "interactions", n)
	}
}

// takeAway removes the placeholders of the orphans, at most maxDiscards at once, even after ctx has ended.
func (p *Bot) takeAway(ctx context.Context, orphans []*interaction) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxDiscards)
	for _, i := range orphans {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
			defer cancel()
			if err := p.Discard(ctx, i.capability("")); err != nil {
				p.log.Warn("discord placeholder not taken away", "err", err)
			}
		})
	}
}
