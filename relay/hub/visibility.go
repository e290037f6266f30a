package hub

import (
	"context"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// visibleFor is how long a platform's answer is believed, unless it reports a change.
	visibleFor = time.Minute
	// visibleWithin bounds one question to the platform, repetitions included. No answer is no.
	visibleWithin = 5 * time.Second
	// visibleRetry is the pause before a question that failed is put again.
	visibleRetry = 500 * time.Millisecond
	// maxVisible bounds the cache; when it is full it starts over.
	maxVisible = 10_000
)

// visibility answers whether a person can see a chat now, from the platform's word not older than
// visibleFor. A failure is never remembered, so the next event asks again.
type visibility struct {
	mu    sync.Mutex // guards the fields below
	known map[sight]seenAt
	// epoch grows with every change a platform reports, so that an answer fetched before the
	// change is not remembered after it.
	epoch uint64
}

type sight struct {
	bot   relay.Bot
	place relay.Place
	user  relay.UserID
}

type seenAt struct {
	sees bool
	at   time.Time
}

// batch answers for the events of one batch: a question that had no answer for one of them is not
// put again for the next, so that a platform in trouble does not hold up a whole batch for
// visibleWithin each.
type batch struct {
	*visibility
	unknown map[sight]bool
}

func (v *visibility) batch() batch { return batch{v, make(map[sight]bool)} }

// canSee asks p, or the cache. It blocks for at most visibleWithin.
func (b batch) canSee(ctx context.Context, p platforms.Platform, place relay.Place, user relay.UserID) bool {
	key := sight{p.Bot(), place, user}
	if b.unknown[key] {
		return false
	}
	sees, known := b.ask(ctx, p, key)
	b.unknown[key] = !known
	return sees
}

// ask is canSee, and whether there was an answer.
func (v *visibility) ask(ctx context.Context, p platforms.Platform, key sight) (sees, known bool) {
	roster, ok := p.(platforms.Roster)
	if !ok {
		return false, false
	}
	v.mu.Lock()
	k, hit := v.known[key]
	epoch := v.epoch
	v.mu.Unlock()
	if hit && time.Since(k.at) < visibleFor {
		return k.sees, true
	}
	ctx, cancel := context.WithTimeout(ctx, visibleWithin)
	defer cancel()
	for {
		sees, err := roster.CanSee(ctx, key.place, key.user)
		if err == nil {
			v.remember(key, sees, epoch)
			return sees, true
		}
		select {
		case <-ctx.Done():
			return false, false
		case <-time.After(visibleRetry):
		}
	}
}

func (v *visibility) remember(key sight, sees bool, epoch uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.epoch != epoch {
		return
	}
	if v.known == nil || len(v.known) >= maxVisible {
		v.known = make(map[sight]seenAt)
	}
	v.known[key] = seenAt{sees, time.Now()}
}

// forget drops what changes say no longer holds for bot.
func (v *visibility) forget(bot relay.Bot, changes []platforms.RosterChange) {
	if len(changes) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.epoch++
	for key := range v.known {
		if key.bot != bot {
			continue
		}
		for _, c := range changes {
			if (c.Scope == "" || c.Scope == key.place.Scope) &&
				(c.Chat == "" || c.Chat == key.place.Chat || c.Chat == key.place.Parent) &&
				(c.User == "" || c.User == key.user) {
				delete(v.known, key)
				break
			}
		}
	}
}
