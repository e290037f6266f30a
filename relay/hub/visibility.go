package hub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// visibleFor is how long a platform's answer is believed, unless it reports a change.
	visibleFor = time.Minute
	// visibleWithin bounds how long one fact is asked for, repetitions included. No answer is no.
	visibleWithin = 10 * time.Second
	// visibleRetry is the pause before a question that failed is put again.
	visibleRetry = time.Second
	// unknownFor is how long a fact that could not be had counts as no, without being asked for again.
	unknownFor = 30 * time.Second
	// maxVisible bounds the cache; when it is full it starts over.
	maxVisible = 10_000
)

// visibility remembers who can see which chat, by the platforms' word.
type visibility struct {
	mu    sync.Mutex // guards the fields below
	known map[sight]fact
	// epoch grows with every change a platform reports, so that an answer fetched before the
	// change is not remembered after it.
	epoch uint64
}

// sight is somebody looking at a chat through a bot.
type sight struct {
	bot   relay.Bot
	place relay.Place
	user  relay.UserID
}

// fact is an answer, and until when it is believed.
type fact struct {
	sees  bool
	until time.Time
}

// recall is what is known without asking.
func (v *visibility) recall(key sight) (sees, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, hit := v.known[key]
	return f.sees, hit && time.Now().Before(f.until)
}

// sees asks p, unless the answer is known. A fact that cannot be had before the time until is no. The
// error is a *platforms.MutedError, or ctx's; then nothing is known.
func (v *visibility) sees(ctx context.Context, p platforms.Platform, key sight, until time.Time) (bool, error) {
	roster, ok := p.(platforms.Roster)
	if !ok {
		return false, nil
	}
	asking, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		if sees, known := v.recall(key); known {
			return sees, nil
		}
		epoch := v.now()
		sees, err := roster.CanSee(asking, key.place, key.user)
		var muted *platforms.MutedError
		switch {
		case err == nil:
			v.remember(key, fact{sees, time.Now().Add(visibleFor)}, epoch)
			return sees, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case errors.As(err, &muted):
			return false, err
		}
		select {
		case <-asking.Done():
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			v.remember(key, fact{false, time.Now().Add(unknownFor)}, epoch)
			return false, nil
		case <-time.After(visibleRetry):
		}
	}
}

// prove notes that somebody saw a chat when he wrote in it. That is worth what an answer of the
// platform at that moment would be.
func (v *visibility) prove(key sight, at time.Time) {
	now := time.Now()
	if at.After(now) {
		at = now // their clock is ahead of ours
	}
	if until := at.Add(visibleFor); now.Before(until) {
		v.remember(key, fact{true, until}, v.now())
	}
}

// now is the epoch.
func (v *visibility) now() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.epoch
}

func (v *visibility) remember(key sight, f fact, epoch uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.epoch != epoch {
		return
	}
	if v.known == nil || len(v.known) >= maxVisible {
		v.known = make(map[sight]fact)
	}
	v.known[key] = f
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
