package hub

import (
	"context"
	"errors"
	"maps"
	"slices"
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
	// asked are the questions under way. A change that a platform reports takes out those that it is about: their
	// answers may be older than the change.
	asked map[*sight]struct{}
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

// sees asks p, unless the answer is known. No answer until the given time is a no. The error is a
// *platforms.MutedError, or ctx's; then nothing is known.
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
		q := v.ask(key)
		sees, err := roster.CanSee(asking, key.place, key.user)
		var f *fact
		if err == nil {
			f = &fact{sees, time.Now().Add(visibleFor)}
		}
		if v.answered(q, f) && err == nil {
			return sees, nil
		}
		if _, muted := errors.AsType[*platforms.MutedError](err); muted && ctx.Err() == nil {
			return false, err
		}
		select { // a failure, or an answer from before a change
		case <-time.After(visibleRetry):
		case <-asking.Done():
			if ctx.Err() == nil {
				v.answered(v.ask(key), &fact{false, time.Now().Add(unknownFor)})
			}
			return false, ctx.Err()
		}
	}
}

// prove notes that somebody wrote in a chat and so saw it, as if the platform had said so at that moment.
func (v *visibility) prove(key sight, at time.Time) {
	now := time.Now()
	if at.After(now) {
		at = now // their clock is ahead of ours
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if until := at.Add(visibleFor); now.Before(until) {
		v.rememberLocked(key, fact{true, until})
	}
}

// ask notes that a question is put.
func (v *visibility) ask(key sight) *sight {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asked == nil {
		v.asked = make(map[*sight]struct{})
	}
	v.asked[&key] = struct{}{}
	return &key
}

// answered ends a question; f is nil if it has no answer. It reports whether the answer counts.
func (v *visibility) answered(q *sight, f *fact) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, counts := v.asked[q]
	delete(v.asked, q)
	if counts && f != nil {
		v.rememberLocked(*q, *f)
	}
	return counts
}

func (v *visibility) rememberLocked(key sight, f fact) {
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
	concerns := func(key sight) bool {
		return key.bot == bot && slices.ContainsFunc(changes, func(c platforms.RosterChange) bool {
			return (c.Scope == "" || c.Scope == key.place.Scope) &&
				(c.Chat == "" || c.Chat == key.place.Chat || c.Chat == key.place.Parent) &&
				(c.User == "" || c.User == key.user)
		})
	}
	maps.DeleteFunc(v.known, func(key sight, _ fact) bool { return concerns(key) })
	maps.DeleteFunc(v.asked, func(key *sight, _ struct{}) bool { return concerns(*key) })
}
