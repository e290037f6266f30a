package inbox

import (
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
)

// Fresh is how far a signed time may be from ours.
const Fresh = 5 * time.Minute

// retryAfter is when a network may bring again what was not stored.
const retryAfter = 5 * time.Second

// OK answers with 200.
func OK(contentType, body string) platforms.HookAnswer {
	return platforms.HookAnswer{Status: http.StatusOK, Type: contentType, Body: []byte(body)}
}

// Unauthorized answers whoever has not proved that they may call, in one text for every reason.
func Unauthorized(why platforms.HookRefusal) platforms.HookAnswer {
	return platforms.HookAnswer{Status: http.StatusUnauthorized, Type: "application/json", Body: []byte(`{"error":"unauthorized"}`), Refused: why}
}

// Unstored answers what was not on disk in time.
func Unstored() platforms.HookAnswer {
	return platforms.HookAnswer{
		Status: http.StatusServiceUnavailable, Type: "application/json", Body: []byte(`{"error":"not stored yet"}`),
		RetryAfter: retryAfter, Refused: platforms.NotStored,
	}
}

// Stale answers a request whose signed time, in seconds since 1970, is too far from now; ok is false then, and
// for what is not digits alone.
func Stale(seconds string, now time.Time) (at time.Time, a platforms.HookAnswer, ok bool) {
	n, err := strconv.ParseUint(seconds, 10, 40) // it takes no sign
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
