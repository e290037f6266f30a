package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/relay/server/routes"
)

func forbidden() *routes.Refusal { return routes.Refused(http.StatusForbidden, "forbidden") }

// asRefusal returns the part of err that a caller may learn. ok is false for an internal error, which belongs into the
// log.
func asRefusal(err error) (r *routes.Refusal, ok bool) {
	if r, ok := errors.AsType[*routes.Refusal](err); ok {
		return r, true
	}
	refused, ok := errors.AsType[*manage.Error](err)
	if !ok {
		return nil, false
	}
	// Except for Usage, the words are for the operator: they mention commands and other people's names.
	switch refused.Why {
	case manage.NotFound:
		return routes.NotFound(), true
	case manage.Forbidden:
		return forbidden(), true
	case manage.Held:
		return routes.Refused(http.StatusConflict, "held by another instance"), true
	case manage.Exists:
		return routes.Refused(http.StatusConflict, "already exists"), true
	case manage.Usage:
		return routes.Refused(http.StatusBadRequest, strings.TrimPrefix(refused.Field+": "+refused.Message, ": ")), true
	}
	return nil, false
}
