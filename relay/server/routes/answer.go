package routes

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// unreadTime is how long an answer waits for the unread rest of the request's body: net/http reads the rest of a small
// body before it sends the answer.
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
	// An error means a connection without deadlines: there the server has to end the request.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTime))
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(buf.Len())) // so that the caller sees the answer's end before linger has ended
	h.Set("Cache-Control", "no-store")               // many answers are credentials
	w.WriteHeader(status)
	_, _ = w.Write(buf.Bytes()) // the peer may be gone; there is nobody else to tell
}

// Bearer returns the request's bearer token; empty if there is none.
func Bearer(r *http.Request) string {
	scheme, t, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(t)
}
