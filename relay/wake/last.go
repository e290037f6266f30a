package wake

import (
	"fmt"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
)

// Poke is the result of one request to a wake URL. It omits the URL, which may contain a token.
type Poke struct {
	At     time.Time `json:"at"`               // when it ended
	Woken  bool      `json:"woken"`            // the URL answered with a status below 400
	Status int       `json:"status,omitempty"` // of the answer; 0: there was none
	Reason string    `json:"reason,omitempty"` // why there was no answer
}

// String returns the result in words, without the time.
func (p Poke) String() string {
	switch {
	case p.Woken:
		return "answered"
	case p.Reason != "":
		return "failed: " + p.Reason
	}
	return fmt.Sprintf("failed: answered with status %d", p.Status)
}

// Last returns the result of an instance's newest poke since the start; nil: there was none. It may be called from any
// goroutine.
func (w *Waker) Last(i relay.InstanceID) *Poke {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[i]
}
