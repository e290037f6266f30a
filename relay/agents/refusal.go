package agents

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// refusal is an answer that is not 200, in words that the caller may read.
type refusal struct {
	status int
	text   string
	wait   time.Duration // for 429 and 503
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, text string) *refusal { return &refusal{status: status, text: text} }

func unauthorized() *refusal { return refuse(http.StatusUnauthorized, "unauthorized") }
func unavailable() *refusal {
	return &refusal{http.StatusServiceUnavailable, "unavailable", 5 * time.Second}
}

// notFound returns the answer about an agent that is not there, and about one that the caller may not reach.
func notFound() *refusal { return refuse(http.StatusNotFound, "not found") }

func tooMany(wait time.Duration, text string) *refusal {
	return &refusal{http.StatusTooManyRequests, text, wait}
}

// refuse answers with err. An internal error goes into the log, not to the caller.
func (d *Desk) refuse(r *request, err error) {
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		level := slog.LevelWarn
		if r.Context().Err() != nil { // the caller hung up
			level = slog.LevelDebug
		}
		d.log.Log(r.Context(), level, "request not served; the caller may come again", "route", r.route, "caller", r.caller.Name, "from", r.from, "err", err)
		refused = unavailable()
	}
	switch {
	case refused.status == http.StatusTooManyRequests:
		routes.TooMany(r.w, refused.wait, refused.text)
		return
	case refused.status == http.StatusUnauthorized:
		r.w.Header().Set("WWW-Authenticate", "Bearer")
	case refused.wait > 0:
		r.w.Header().Set("Retry-After", "5")
	}
	routes.Refuse(r.w, refused.status, refused.text)
}
