package words

import (
	"strconv"
	"strings"
	"time"
)

// Since reads the moment that an operator names: a number of days or a duration such as 12h30m before now, or a day
// with or without a time of day, in this machine's zone. ok is false if it is none of them, or lies in the future.
func Since(said string, now time.Time) (at time.Time, ok bool) {
	said = strings.TrimSpace(said)
	if days, found := strings.CutSuffix(said, "d"); found {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), true
		}
	}
	if d, err := time.ParseDuration(said); err == nil {
		return now.Add(-d), d >= 0
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.DateTime, time.RFC3339} {
		if at, err := time.ParseInLocation(layout, said, time.Local); err == nil {
			return at, at.Before(now)
		}
	}
	return at, false
}
