package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/platforms/backoff"
	"github.com/hermes-connector/hermes-connector/platforms/httpcall"
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// invalidWait and invalidSpread: Discord wants 1 to 5 seconds between an invalid session and the
	// next attempt.
	invalidWait   = time.Second
	invalidSpread = 4 * time.Second
	// patientFailures in a row are normal; after more the state is Degraded.
	patientFailures = 2
)

// after decides what to do after the end of a connection, shows that in the status and the log, and pauses. It returns
// an error only if trying again cannot help.
func (g *Gateway) after(ctx context.Context, err error) error {
	var f *httpcall.Fault
	delay, reason := g.wait.Next(), "the connection to Discord was lost: "+g.Rest.Scrub(errText(err))
	state := platforms.Connecting
	if g.wait.Failures > patientFailures && g.ever {
		state = platforms.Degraded
	}
	code := websocket.CloseStatus(err)
	then := thenResume
	switch {
	case errors.As(err, &f):
		reason = "Discord cannot be reached: " + f.Error()
		switch {
		case f.Refused(http.StatusUnauthorized) && f.Message != httpcall.NoAnswer: // Discord's own word, and not a page's
			return fmt.Errorf("%w: %w", relay.ErrBadCredentials, err)
		case f.RetryAfter > 0:
			state, delay = platforms.Degraded, max(delay, f.RetryAfter)
			reason = "Discord asked to be left alone for " + f.RetryAfter.String()
		case f.Status != 0:
			state, reason = platforms.Degraded, "Discord answers with a fault: "+f.Error()
		}
	case errors.Is(err, errReconnect):
		reason = "Discord asked to connect again"
		if g.wait.Failures == 1 { // the first failure in a row
			delay = 0
		}
	case errors.Is(err, errRejected), errors.Is(err, errUnknown):
		reason = "Discord rejects the session"
		delay = max(delay, invalidWait+rand.N(invalidSpread))
		if errors.Is(err, errUnknown) || !g.resuming {
			then = thenIdentify
		}
	case errors.Is(err, ErrFull):
		state, reason = platforms.Degraded, "more comes from Discord than the disk takes; Discord keeps the rest meanwhile"
	case code != -1 && code != closeAgain:
		then, reason = afterClose(code)
	}
	switch then {
	case thenRevoked:
		return fmt.Errorf("%w: %s", relay.ErrBadCredentials, reason)
	case thenStop:
		return errors.New(reason)
	case thenEnable:
		intentWait := g.Settings.Duration(keyIntentWait)
		state, delay = platforms.Degraded, intentWait+rand.N(intentWait/20+1)
		g.live = Session{}
	case thenIdentify:
		g.live = Session{}
	}
	if g.resumes >= maxResumes {
		g.live, g.resumes = Session{}, 0
	}
	g.Status.Set(state, reason)
	g.Status.SetRetryAt(time.Now().Add(delay))
	g.Log.Warn("discord connection ended; trying again", "reason", reason, "in", delay, "resume", g.live.ID != "")
	backoff.Pause(ctx, delay)
	return nil
}

// errText returns err without the reason of a close, which is in Discord's words.
func errText(err error) string {
	if ce, ok := errors.AsType[websocket.CloseError](err); ok {
		return fmt.Sprintf("closed with %d", ce.Code)
	}
	return err.Error()
}
