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
	Wait   time.Duration // after it the caller may come again; 0: nothing is said of that
}

func (r *Refusal) Error() string { return r.Text }

// Answer answers with the refusal.
func (r *Refusal) Answer(w http.ResponseWriter) {
	if r.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if r.Wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(r.Wait.Seconds()))))
	}
	Answer(w, r.Status, map[string]string{"error": r.Text})
}

// Refused is a refusal that says nothing of when to come again.
func Refused(status int, text string) *Refusal { return &Refusal{Status: status, Text: text} }

// Unauthorized refuses a credential that does not count.
func Unauthorized() *Refusal { return Refused(http.StatusUnauthorized, "unauthorized") }

// NotFound is the same for what is absent and for what the caller may not know of.
func NotFound() *Refusal { return Refused(http.StatusNotFound, "not found") }

// Busy refuses a caller who may come again after wait.
func Busy(wait time.Duration, text string) *Refusal {
	return &Refusal{http.StatusTooManyRequests, text, wait}
}

// Refuse answers with an error, in words a stranger may read.
func Refuse(w http.ResponseWriter, status int, text string) { Refused(status, text).Answer(w) }

// TooMany answers 429 to a caller who may come again after wait.
func TooMany(w http.ResponseWriter, wait time.Duration, text string) { Busy(wait, text).Answer(w) }

// Body is the body of a request, which has to arrive within that time, and which the request's route bounds. The error is a
// *Refusal.
func Body(w http.ResponseWriter, r *http.Request, within time.Duration) ([]byte, error) {
	conn := http.NewResponseController(w)
	// A connection without deadlines of its own is the server's to cut.
	_ = conn.SetReadDeadline(time.Now().Add(within))
	raw, err := io.ReadAll(r.Body)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, Refused(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d KiB", large.Limit>>10))
	}
	if err != nil {
		_ = r.Body.Close() // or the answer would wait for the rest, unreadTime more
		return nil, Refused(http.StatusBadRequest, "the body did not arrive")
	}
	_ = conn.SetReadDeadline(time.Time{}) // or it would end what the request is still to do
	return raw, nil
}
