package discord

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
	"github.com/hermes-connector/hermes-connector/relay"
)

const (
	// invalidWait and invalidSpread: Discord wants 1 to 5 seconds between an invalid session and the
	// next attempt.
	invalidWait   = time.Second
	invalidSpread = 4 * time.Second
	// patientFailures in a row are hiccups; more is trouble an operator should see.
	patientFailures = 2
)

// after decides what follows the end of a connection, says so in the status and the log, and pauses.
// It returns an error only when trying again cannot help.
func (r *runner) after(ctx context.Context, err error) error {
	var ae *apiError
	var invalid errInvalid
	delay, reason := r.wait.Next(), "the connection to Discord was lost: "+r.rest.scrub(errText(err))
	state := platforms.Connecting
	if r.wait.Failures > patientFailures && r.ever {
		state = platforms.Degraded
	}
	code := websocket.CloseStatus(err)
	then := thenResume
	switch {
	case errors.As(err, &ae):
		reason = "Discord cannot be reached: " + ae.Error()
		switch {
		case ae.Status == http.StatusUnauthorized && ae.Sent == sentRefused:
			return fmt.Errorf("%w: %w", relay.ErrBadCredentials, err)
		case ae.RetryAfter > 0:
			state, delay = platforms.Degraded, max(delay, ae.RetryAfter)
			reason = "Discord asked to be left alone for " + ae.RetryAfter.String()
		case ae.Status != 0:
			state, reason = platforms.Degraded, "Discord answers with a fault: "+ae.Error()
		}
	case errors.Is(err, errReconnect):
		reason = "Discord asked to connect again"
		if r.wait.Failures == 1 { // not one of many
			delay = 0
		}
	case errors.As(err, &invalid):
		reason = "Discord rejects the session"
		delay = max(delay, invalidWait+rand.N(invalidSpread))
		if !invalid.resumable || !r.resuming {
			then = thenIdentify
		}
	case errors.Is(err, errFull):
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
		state, delay = platforms.Degraded, r.opts.intentWait+rand.N(r.opts.intentWait/20+1)
		r.live = session{}
	case thenIdentify:
		r.live = session{}
	}
	if r.resumes >= maxResumes {
		r.live, r.resumes = session{}, 0
	}
	r.board.is(state, reason)
	r.log.Warn("discord connection ended; trying again", "reason", reason, "in", delay, "resume", r.live.ID != "")
	backoff.Pause(ctx, delay)
	return nil
}

// errText is err without the quoted reason of a close: Discord's words are not ours to repeat.
func errText(err error) string {
	var ce websocket.CloseError
	if errors.As(err, &ce) {
		return fmt.Sprintf("closed with %d", ce.Code)
	}
	return err.Error()
}
