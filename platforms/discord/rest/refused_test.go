package rest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
)

// asking is the context of what an instance asks for.
func asking(t *testing.T, i relay.InstanceID) context.Context {
	return platforms.For(t.Context(), i)
}

// TestAQuarterIsKept: however many instances are refused, look-ups go on, and Discord is never asked
// more often than maxRefused times.
func TestAQuarterIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		sent := 0
		for i := range 20 {
			for range 2 * maxRefusedEach {
				ctx := asking(t, relay.InstanceID("i"+strconv.Itoa(i)))
				if l.wait(ctx, send1, false) == nil {
					l.seen(ctx, send1, http.Header{}, http.StatusNotFound)
					sent++
				}
			}
		}
		if sent != maxRefusedInstances {
			t.Errorf("%d requests of instances left, want %d", sent, maxRefusedInstances)
		}
		var err error
		for guild := range 20 { // look-ups, refused as well
			route := "GET /guilds/" + strconv.Itoa(guild+1) + "/members/{user}"
			for range 2 * maxRefusedEach {
				if err = l.wait(t.Context(), route, false); err == nil {
					l.seen(t.Context(), route, http.Header{}, http.StatusNotFound)
					sent++
				} else if sent < maxRefused && errors.As(err, new(*platforms.MutedError)) {
					t.Fatalf("muted after %d", sent)
				}
			}
		}
		if sent != maxRefused {
			t.Errorf("%d requests left, want %d", sent, maxRefused)
		}
		var m *platforms.MutedError
		if !errors.As(err, &m) || time.Until(m.Until) <= 0 {
			t.Errorf("at the end: %v, want until when the bot is muted", err)
		}
		<-time.After(time.Until(m.Until))
		waits(t, l, send2)
	})
}
