package gateway

import (
	"fmt"
	"slices"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms/ratelimit"
)

const (
	// maxIdentifies is how many sessions are begun at most in any 24 hours. Discord allows 1,000, and revokes the token
	// of a bot that begins more.
	maxIdentifies = 100
	// identifyStep is how many identifies in a day double the pause between two identifies.
	identifyStep = 5
	// identifyPause is the longest pause between two identifies.
	identifyPause = 30 * time.Minute
	day           = 24 * time.Hour
)

// Budget limits how many more sessions may be begun. It is part of the stored state, so that a program that restarts
// again and again respects it.
type Budget struct {
	// What Discord named last. Known is false until Discord has named a budget.
	Known     bool      `json:"known,omitempty"`
	Remaining int       `json:"left,omitempty"`
	ResetAt   time.Time `json:"reset,omitzero"`
	// Spent holds the times of the identifies of the last 24 hours, in milliseconds since 1970, oldest first.
	Spent []int64 `json:"spent,omitempty"`
}

// recent returns Spent without times from before the last 24 hours, and without times in the future, which come from a
// clock that was set back since.
func (b Budget) recent(now time.Time) []int64 {
	from, to := now.Add(-day).UnixMilli(), milliUp(now)
	return slices.DeleteFunc(slices.Clone(b.Spent), func(t int64) bool { return t <= from || t > to })
}

// due returns when the next identify may be sent, and why not now. least is the pause between the first identifies of a
// day.
func (b Budget) due(now time.Time, least time.Duration) (at time.Time, reason string) {
	at = now
	spent := b.recent(now)
	if n := len(spent); n > 0 {
		pause := identifyPause
		if doublings := n / identifyStep; doublings < 20 {
			pause = min(least<<doublings, identifyPause)
		}
		at = ratelimit.Later(at, time.UnixMilli(spent[n-1]).Add(pause))
		if n >= maxIdentifies {
			at = ratelimit.Later(at, time.UnixMilli(spent[n-maxIdentifies]).Add(day+time.Millisecond))
		}
		if at.After(now) {
			reason = fmt.Sprintf("%d sessions were begun in the last 24 hours; the next one follows at %s", n, clock(at))
		}
	}
	if b.Known && b.Remaining <= 0 && b.ResetAt.After(at) {
		at = b.ResetAt
		reason = "Discord's budget of new sessions is used up; it resets at " + clock(at)
	}
	return at, reason
}

// spend notes an identify.
func (b *Budget) spend(now time.Time) {
	b.Spent = append(b.recent(now), milliUp(now))
	b.Remaining = max(b.Remaining-1, 0)
}

// milliUp returns t in milliseconds since 1970, rounded up: an identify must not count as older than it is.
func milliUp(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// granted notes the budget that Discord named. A budget that is used up is noted to reset in a minute at the earliest:
// one that resets at once is not believed.
func (b *Budget) granted(remaining int, resetAfter time.Duration, now time.Time) {
	if remaining <= 0 {
		resetAfter = max(resetAfter, time.Minute)
	}
	b.Known, b.Remaining, b.ResetAt = true, remaining, now.Add(resetAfter).UTC().Truncate(time.Second)
}

// clock writes a moment for an operator; it is shown in the reader's time zone later (relay/finding).
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
