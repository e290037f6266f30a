package inbox

import (
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// Fresh is how far a signed time may differ from ours.
const Fresh = 5 * time.Minute

// retryAfter is when a network should repeat a call that was not stored.
const retryAfter = 5 * time.Second

// OK answers with 200.
func OK(contentType, body string) platforms.HookAnswer {
	return platforms.HookAnswer{Status: http.StatusOK, Type: contentType, Body: []byte(body)}
}

// Unauthorized refuses a caller that has not proved who it is, with the same text for every reason.
func Unauthorized(why platforms.HookRefusal) platforms.HookAnswer {
	return platforms.HookAnswer{Status: http.StatusUnauthorized, Type: "application/json", Body: []byte(`{"error":"unauthorized"}`), Refused: why}
}

// Unstored answers a call that was not on disk in time.
func Unstored() platforms.HookAnswer {
	return platforms.HookAnswer{
		Status: http.StatusServiceUnavailable, Type: "application/json", Body: []byte(`{"error":"not stored yet"}`),
		RetryAfter: retryAfter, Refused: platforms.NotStored,
	}
}

// Stale checks a signed time, in seconds since 1970. If it is too far from now, or is not made of digits only, ok is
// false and a is the answer.
func Stale(seconds string, now time.Time) (at time.Time, a platforms.HookAnswer, ok bool) {
	n, err := strconv.ParseUint(seconds, 10, 40) // unlike ParseInt it accepts no sign
	if err != nil {
		return at, Unauthorized(platforms.BadSignature), false
	}
	at = time.Unix(int64(n), 0)
	if d := now.Sub(at); d > Fresh || d < -Fresh {
		a = Unauthorized(platforms.StaleTimestamp)
		a.Skew = d.Round(time.Second)
		return at, a, false
	}
	return at, a, true
}
