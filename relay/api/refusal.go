package api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

// refusal is an answer that is not 200.
type refusal struct {
	status int
	text   string        // a stranger may read it
	wait   time.Duration // for 429
}

func refuse(status int, text string) *refusal { return &refusal{status: status, text: text} }

func (r *refusal) Error() string { return r.text }

func (r *refusal) answer(w http.ResponseWriter) {
	switch r.status {
	case http.StatusTooManyRequests:
		routes.TooMany(w, r.wait, r.text)
		return
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	routes.Refuse(w, r.status, r.text)
}

// The refusals that many routes share. None of them tells a caller what exists.
func unauthorized() *refusal { return refuse(http.StatusUnauthorized, "unauthorized") }
func notFound() *refusal     { return refuse(http.StatusNotFound, "not found") }
func forbidden() *refusal    { return refuse(http.StatusForbidden, "forbidden") }
func unavailable() *refusal  { return refuse(http.StatusServiceUnavailable, "unavailable") }

// asRefusal returns the part of err that a caller may learn. ok is false for an internal error, which belongs into the
// log.
func asRefusal(err error) (r *refusal, ok bool) {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r, true
	}
	refused, ok := errors.AsType[*manage.Error](err)
	if !ok {
		return nil, false
	}
	// But for Usage, the words are the operator's: they speak of commands and of others' names.
	switch refused.Why {
	case manage.NotFound:
		return notFound(), true
	case manage.Forbidden:
		return forbidden(), true
	case manage.Held:
		return refuse(http.StatusConflict, "held by another instance"), true
	case manage.Exists:
		return refuse(http.StatusConflict, "already exists"), true
	case manage.Usage:
		return refuse(http.StatusBadRequest, strings.TrimPrefix(refused.Field+": "+refused.Message, ": ")), true
	}
	return nil, false
}
