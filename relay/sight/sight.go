// Package sight remembers who can see which chat, by the platforms' word. What cannot be learned counts as no.
//
// A person's own message in a shared chat proves for a minute that they see it, for what is done there too: where Telegram
// hides who is a member, nobody could be answered otherwise.
package sight

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
	// Believed is how long a platform's answer is believed, unless it reports a change.
	Believed = time.Minute
	// Within bounds how long one fact is asked for, repetitions included. No answer is no.
	Within = 10 * time.Second
	// Retry is the pause before a question that failed is put again.
	Retry = time.Second
	// Unknown is how long a fact that could not be had counts as no, without being asked for again.
	Unknown = 30 * time.Second
	// maxVisible bounds the cache; when it is full it starts over.
	maxVisible = 10_000
)

// Memory is what the platforms said of late. The zero value knows nothing. Its methods may be called from any goroutine.
type Memory struct {
	mu    sync.Mutex // guards the fields below
	known map[Of]fact
	// asked are the questions under way. A change that a platform reports takes out those that it is about: their
	// answers may be older than the change.
	asked map[*Of]struct{}
}

// Of is somebody looking at a chat through a bot.
type Of struct {
	Bot   relay.Bot
	Place relay.Place
	User  relay.UserID
}

// fact is an answer, and until when it is believed.
type fact struct {
	sees  bool
	until time.Time
}

// Recall is what is known without asking.
func (v *Memory) Recall(key Of) (sees, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f, hit := v.known[key]
	return f.sees, hit && time.Now().Before(f.until)
}

// Sees asks p, unless the answer is known. No answer until the given time is a no. The error is a
// *platforms.MutedError, or ctx's; then nothing is known.
func (v *Memory) Sees(ctx context.Context, p platforms.Platform, key Of, until time.Time) (bool, error) {
	roster, ok := p.(platforms.Roster)
	if !ok {
		return false, nil
	}
	asking, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		if sees, known := v.Recall(key); known {
			return sees, nil
		}
		q := v.ask(key)
		sees, err := roster.CanSee(asking, key.Place, key.User)
		var f *fact
		if err == nil {
			f = &fact{sees, time.Now().Add(Believed)}
		}
		if v.answered(q, f) && err == nil {
			return sees, nil
		}
		if _, muted := errors.AsType[*platforms.MutedError](err); muted && ctx.Err() == nil {
			return false, err
		}
		select { // a failure, or an answer from before a change
		case <-time.After(Retry):
		case <-asking.Done():
			if ctx.Err() == nil {
				v.answered(v.ask(key), &fact{false, time.Now().Add(Unknown)})
			}
			return false, ctx.Err()
		}
	}
}

// Prove notes that somebody wrote in a chat and so saw it, as if the platform had said so at that moment.
func (v *Memory) Prove(key Of, at time.Time) {
	now := time.Now()
	if at.After(now) {
		at = now // their clock is ahead of ours
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if until := at.Add(Believed); now.Before(until) {
		v.rememberLocked(key, fact{true, until})
	}
}

// ask notes that a question is put.
func (v *Memory) ask(key Of) *Of {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.asked == nil {
		v.asked = make(map[*Of]struct{})
	}
	v.asked[&key] = struct{}{}
	return &key
}

// answered ends a question; f is nil if it has no answer. It reports whether the answer counts.
func (v *Memory) answered(q *Of, f *fact) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, counts := v.asked[q]
	delete(v.asked, q)
	if counts && f != nil {
		v.rememberLocked(*q, *f)
	}
	return counts
}

func (v *Memory) rememberLocked(key Of, f fact) {
	if v.known == nil || len(v.known) >= maxVisible {
		v.known = make(map[Of]fact)
	}
	v.known[key] = f
}

// Forget drops what changes say no longer holds for bot.
func (v *Memory) Forget(bot relay.Bot, changes []platforms.RosterChange) {
	if len(changes) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	concerns := func(key Of) bool {
		return key.Bot == bot && slices.ContainsFunc(changes, func(c platforms.RosterChange) bool {
			return (c.Scope == "" || c.Scope == key.Place.Scope) &&
				(c.Chat == "" || c.Chat == key.Place.Chat || c.Chat == key.Place.Parent) &&
				(c.User == "" || c.User == key.User)
		})
	}
	maps.DeleteFunc(v.known, func(key Of, _ fact) bool { return concerns(key) })
	maps.DeleteFunc(v.asked, func(key *Of, _ struct{}) bool { return concerns(*key) })
}
