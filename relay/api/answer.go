package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// unreadTime is how long an answer waits for what was not read of the request's body: net/http
// takes the rest of a small one off the connection first.
const unreadTime = time.Second

// Answer writes body as JSON.
func Answer(w http.ResponseWriter, status int, body any) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)                 // links stay readable
	if err := enc.Encode(body); err != nil { // no type here can fail
		status = http.StatusInternalServerError
		buf.Reset()
		buf.WriteString(`{"error":"the answer has no JSON form"}`)
	}
	// A connection without deadlines of its own is the server's to cut.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTime))
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store") // many answers are credentials
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // the peer may be gone; there is nobody else to tell
}

// Refuse answers with an error, in words a stranger may read.
func Refuse(w http.ResponseWriter, status int, text string) {
	Answer(w, status, map[string]string{"error": text})
}

// TooMany answers 429 to a caller who may come again after wait.
func TooMany(w http.ResponseWriter, wait time.Duration, text string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	Refuse(w, http.StatusTooManyRequests, text)
}

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
		TooMany(w, r.wait, r.text)
		return
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	Refuse(w, r.status, r.text)
}

// The refusals that many routes share. None of them tells a caller what is there.
func unauthorized() *refusal { return refuse(http.StatusUnauthorized, "unauthorized") }
func notFound() *refusal     { return refuse(http.StatusNotFound, "not found") }
func forbidden() *refusal    { return refuse(http.StatusForbidden, "forbidden") }
func unavailable() *refusal  { return refuse(http.StatusServiceUnavailable, "unavailable") }

// asRefusal is what a caller may learn of err. ok is false for trouble of ours, which belongs
// into the log.
func asRefusal(err error) (r *refusal, ok bool) {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r, true
	}
	refused, ok := errors.AsType[*manage.Error](err)
	if !ok {
		return nil, false
	}
	// But for Usage, the words are the operator's: they speak of commands and of others' names.
	switch refused.Kind {
	case manage.NotFound:
		return notFound(), true
	case manage.Forbidden:
		return forbidden(), true
	case manage.Held:
		return refuse(http.StatusConflict, "held by another instance"), true
	case manage.Exists:
		return refuse(http.StatusConflict, "already exists"), true
	case manage.Usage:
		return refuse(http.StatusBadRequest, refused.Field+": "+refused.Message), true
	}
	return nil, false
}
