// Package visibility remembers who can see which chat, as the platforms say. If a platform does not say whether
// somebody sees a chat, the answer counts as no.
//
// A person's own message in a shared chat proves for a minute that they see it. The gate needs that proof for actions,
// too: a gateway may answer in the chat only if a person of its own sees it, and where Telegram hides the members, no
// other proof exists.
package visibility

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
	// Believed is how long a platform's answer is believed, unless the platform reports a change.
	Believed = time.Minute
	// Within bounds the questions about one fact, repetitions included. No answer counts as no.
	Within = 10 * time.Second
	// Retry is the pause before a question that failed is put again.
	Retry = time.Second
	// Unknown is how long a fact that no platform told in time counts as no, without another question.
	Unknown = 30 * time.Second
	// maxVisible bounds the cache; when it is full it starts over.
	maxVisible = 10_000
)

// Cache holds the platforms' recent answers. The zero value is empty. Its methods may be called from any goroutine.
type Cache struct {
	mu    sync.Mutex // guards the fields below
	known map[Of]fact
	// asked are the questions under way. A change that a platform reports takes out those that it is about: their
	// answers may be older than the change.
	asked map[*Of]struct{}
}

// Of is the question whether a user sees a place, put to the network of a bot.
type Of struct {
	Bot   relay.Bot
	Place relay.Place
	User  relay.UserID
}

// fact is an answer, and until when it is believed.
type fact struct {
	unsaid bool // the network gave no answer: it counts as a no
	sees   bool
	until  time.Time
}

// Get returns the cached answer.
func (c *Cache) Get(key Of) (sees, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, hit := c.known[key]
	return f.sees, hit && time.Now().Before(f.until)
}

// Unsaid reports whether the network was asked and gave no answer.
func (c *Cache) Unsaid(key Of) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, hit := c.known[key]
	return hit && f.unsaid
}

// Ask returns the answer that is known, or else asks p. If p has not answered by the time until, the answer is no. The
// error is a *platforms.MutedError, or ctx's; then nothing is known.
func (c *Cache) Ask(ctx context.Context, p platforms.Bot, key Of, until time.Time) (bool, error) {
	roster, ok := p.(platforms.Roster)
	if !ok {
		return false, nil
	}
	asking, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		if sees, known := c.Get(key); known {
			return sees, nil
		}
		q := c.begin(key)
		sees, err := roster.CanSee(asking, key.Place, key.User)
		var f *fact
		if err == nil {
			f = &fact{sees: sees, until: time.Now().Add(Believed)}
		}
		if c.end(q, f) && err == nil {
			return sees, nil
		}
		if _, muted := errors.AsType[*platforms.MutedError](err); muted && ctx.Err() == nil {
			return false, err
		}
		select { // a failure, or an answer from before a change
		case <-time.After(Retry):
		case <-asking.Done():
			if ctx.Err() == nil {
				c.end(c.begin(key), &fact{unsaid: true, until: time.Now().Add(Unknown)})
			}
			return false, ctx.Err()
		}
	}
}

// Observe notes that somebody wrote in a chat and so saw it, as if the platform had said so at that moment.
func (c *Cache) Observe(key Of, at time.Time) {
	now := time.Now()
	if at.After(now) {
		at = now // the network's clock is ahead of ours
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := at.Add(Believed); now.Before(until) {
		c.rememberLocked(key, fact{sees: true, until: until})
	}
}

// begin notes that a question is put.
func (c *Cache) begin(key Of) *Of {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = make(map[*Of]struct{})
	}
	c.asked[&key] = struct{}{}
	return &key
}

// end ends a question; f is nil if it has no answer. It reports whether the answer counts.
func (c *Cache) end(q *Of, f *fact) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, counts := c.asked[q]
	delete(c.asked, q)
	if counts && f != nil {
		c.rememberLocked(*q, *f)
	}
	return counts
}

func (c *Cache) rememberLocked(key Of, f fact) {
	if c.known == nil || len(c.known) >= maxVisible {
		c.known = make(map[Of]fact)
	}
	c.known[key] = f
}

// Forget drops the answers for bot that may no longer hold after the changes.
func (c *Cache) Forget(bot relay.Bot, changes []platforms.RosterChange) {
	if len(changes) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	concerns := func(key Of) bool {
		return key.Bot == bot && slices.ContainsFunc(changes, func(c platforms.RosterChange) bool {
			return (c.Scope == "" || c.Scope == key.Place.Scope) &&
				(c.Chat == "" || c.Chat == key.Place.Chat || c.Chat == key.Place.Parent) &&
				(c.User == "" || c.User == key.User)
		})
	}
	maps.DeleteFunc(c.known, func(key Of, _ fact) bool { return concerns(key) })
	maps.DeleteFunc(c.asked, func(key *Of, _ struct{}) bool { return concerns(*key) })
}
