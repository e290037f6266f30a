package page

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/relay/login"
)

const (
	// Look is how often a stream looks for changes. It sends something each time, so a page that receives nothing shows
	// that the server is gone.
	Look = 2 * time.Second
	// WriteWithin bounds one write of a stream.
	WriteWithin = 30 * time.Second
	// StreamBeat is sent where there is nothing else to send.
	StreamBeat = "event: beat\ndata:\n\n"
	// StreamEnd is sent when the session has ended: the page then leads to the login.
	StreamEnd = "event: end\ndata:\n\n"
)

// Event returns one server-sent event. mark, unless it is empty, is the event's id: with it, a browser that connects
// again says what it has already.
func Event(name, mark, data string) string {
	var b strings.Builder
	if mark != "" {
		b.WriteString("id: " + mark + "\n")
	}
	b.WriteString("event: " + name + "\n")
	for line := range strings.SplitSeq(data, "\n") {
		b.WriteString("data: " + line + "\n")
	}
	b.WriteByte('\n')
	return b.String()
}

// Streams bounds how many pages are kept fresh at a time.
type Streams struct{ places chan struct{} }

// NewStreams allows most streams at a time.
func NewStreams(most int) Streams { return Streams{make(chan struct{}, most)} }

// Follow sends the events that next returns, until the request ends. It calls next at every look (looking is true), and
// when changed is closed. If a look finds no events, it sends a beat. If the look fails (ok is false), it sends
// nothing, and the page then shows that the server does not answer.
func (s Streams) Follow(w http.ResponseWriter, r *http.Request, next func(looking bool) (events string, changed <-chan struct{}, ok bool)) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Time{}) // fails only in tests, whose connections have no deadlines
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy in front must pass on data at once
	send := func(events string) error {
		_ = conn.SetWriteDeadline(time.Now().Add(WriteWithin))
		if _, err := w.Write([]byte(events)); err != nil {
			return err
		}
		return conn.Flush()
	}
	tick := time.NewTicker(Look)
	defer tick.Stop()
	for looking := true; ; {
		events, changed, ok := next(looking)
		if looking && ok && events == "" {
			events = StreamBeat
		}
		if events != "" && send(events) != nil {
			return
		}
		select {
		case <-r.Context().Done():
			if errors.Is(context.Cause(r.Context()), login.ErrNotGood) {
				_ = send(StreamEnd) // fails only if the browser is gone
			}
			return
		case <-changed:
			looking = false
		case <-tick.C:
			looking = true
		}
	}
}
