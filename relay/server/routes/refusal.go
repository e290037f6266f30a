package routes

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
)

// Refusal is an answer that is not 200, in words that a stranger may read.
type Refusal struct {
	Status int
	Text   string
	Wait   time.Duration // how long the caller should wait before it asks again; 0: the answer does not say
}

func (r *Refusal) Error() string { return r.Text }

// Answer writes the refusal as the answer.
func (r *Refusal) Answer(w http.ResponseWriter) {
	if r.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if r.Wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(r.Wait.Seconds()))))
	}
	Answer(w, r.Status, map[string]string{"error": r.Text})
}

// Refused returns a refusal that does not say when to ask again.
func Refused(status int, text string) *Refusal { return &Refusal{Status: status, Text: text} }

// Unauthorized returns the refusal of a missing or wrong credential.
func Unauthorized() *Refusal { return Refused(http.StatusUnauthorized, "unauthorized") }

// NotFound returns the same refusal for a thing that does not exist and for one of which the caller may not know.
func NotFound() *Refusal { return Refused(http.StatusNotFound, "not found") }

// Busy returns a 429 for a caller who may ask again after wait.
func Busy(wait time.Duration, text string) *Refusal {
	return &Refusal{http.StatusTooManyRequests, text, wait}
}

// Refuse answers with an error, in words a stranger may read.
func Refuse(w http.ResponseWriter, status int, text string) { Refused(status, text).Answer(w) }

// TooMany answers 429 to a caller who may ask again after wait.
func TooMany(w http.ResponseWriter, wait time.Duration, text string) { Busy(wait, text).Answer(w) }

// Body reads the body of a request, which has to arrive before the time within has passed. The request's route bounds
// the body's size. The error is a *Refusal.
func Body(w http.ResponseWriter, r *http.Request, within time.Duration) ([]byte, error) {
	conn := http.NewResponseController(w)
	// An error means a connection without deadlines: there the server has to end the request.
	_ = conn.SetReadDeadline(time.Now().Add(within))
	raw, err := io.ReadAll(r.Body)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, Refused(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d KiB", large.Limit>>10))
	}
	if err != nil {
		_ = r.Body.Close() // otherwise the answer would wait up to unreadTime for the rest
		return nil, Refused(http.StatusBadRequest, "the body did not arrive")
	}
	_ = conn.SetReadDeadline(time.Time{}) // otherwise the deadline would end the rest of the request
	return raw, nil
}
