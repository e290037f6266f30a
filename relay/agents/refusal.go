package agents

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// unavailable is the answer while something of ours does not work.
func unavailable() *routes.Refusal {
	return &routes.Refusal{Status: http.StatusServiceUnavailable, Text: "unavailable", Wait: 5 * time.Second}
}

// refuse answers with err. What is none of ours to tell goes into the log.
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
