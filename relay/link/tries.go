package link

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// maxTries is how many messages that link nobody one person may send within tryWindow.
	maxTries  = 5
	tryWindow = 10 * time.Minute
	// maxTriers is how many people are remembered. If more try at once, all are forgotten: a code has enough bits
	// without this.
	maxTriers = 4096
)

// trier is somebody whose tries are counted: a person; if a message has no author, a chat; or, with a platform only,
// all people of a network on which answers cost money.
type trier struct {
	platform relay.PlatformID
	user     relay.UserID
	chat     relay.ChatID // empty if user is set
}

func trierOf(src relay.Source) trier {
	who := trier{platform: src.Platform, user: src.UserID}
	if who.user == "" {
		who.chat = src.ChatID
	}
	return who
}

// tries counts tries in memory only: after a restart everybody begins anew.
type tries struct {
	mu sync.Mutex            // guards at
	at map[trier][]time.Time // oldest first
}

// take uses up one try and reports whether there was one left.
func (t *tries) take(who trier, now time.Time) bool {
	old := func(at time.Time) bool { return now.Sub(at) >= tryWindow }
	t.mu.Lock()
	defer t.mu.Unlock()
	recent := slices.DeleteFunc(t.at[who], old)
	if len(recent) >= maxTries {
		t.at[who] = recent
		return false
	}
	if _, known := t.at[who]; !known && len(t.at) >= maxTriers {
		maps.DeleteFunc(t.at, func(_ trier, at []time.Time) bool { return old(at[len(at)-1]) })
		if len(t.at) >= maxTriers {
			clear(t.at)
		}
	}
	if t.at == nil {
		t.at = make(map[trier][]time.Time)
	}
	t.at[who] = append(recent, now)
	return true
}

// refund deletes the newest try: it linked its author, or failed because of the store.
func (t *tries) refund(who trier) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := t.at[who]; len(at) > 1 {
		t.at[who] = at[:len(at)-1]
	} else {
		delete(t.at, who)
	}
}
