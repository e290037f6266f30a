package agents

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// unavailable returns the answer to a request that cannot be served now, such as after an internal error.
func unavailable() *routes.Refusal {
	return &routes.Refusal{Status: http.StatusServiceUnavailable, Text: "unavailable", Wait: 5 * time.Second}
}

// refuse answers with err. An internal error goes into the log, not to the caller.
func (d *Desk) refuse(r *request, err error) {
	refused, ok := errors.AsType[*routes.Refusal](err)
	if !ok {
		level := slog.LevelWarn
		if r.Context().Err() != nil { // the caller hung up
			level = slog.LevelDebug
		}
		d.log.Log(r.Context(), level, "request not served; the caller may come again", "route", r.route, "caller", r.caller.Name, "from", r.from, "err", err)
		refused = unavailable()
	}
	refused.Answer(r.w)
}
