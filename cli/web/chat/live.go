package chat

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

const (
	// look is how often a stream looks how its gateway is, and says that it does (page.StreamBeat).
	look = 2 * time.Second
	// writeWithin bounds one write of a stream.
	writeWithin = 30 * time.Second
)

// live streams what changes in a room, as server-sent events: "put" a message's element, "gone" its id, "state" the
// element of that id, "typing" 1 or 0, "reload" when the page shows another run's room, "end" when the session ended.
func (s *Section) live(w http.ResponseWriter, r *http.Request, i manage.InstanceStatus) {
	st := &stream{section: s, i: i, mark: r.URL.Query().Get("since")}
	s.follow(w, r, func(looking bool) (out []byte, changed <-chan struct{}, ok bool) {
		if looking {
			now, err := s.gateways.Status(r.Context(), struct{}{})
			if ok = err == nil; ok {
				st.i = standsFor(now, i.ID)
			}
		}
		out, changed = st.next()
		return out, changed, ok
	})
}

// liveList streams how the gateways are: "list" is all of them, when one has changed.
func (s *Section) liveList(w http.ResponseWriter, r *http.Request) {
	shown := ""
	s.follow(w, r, func(bool) (out []byte, changed <-chan struct{}, ok bool) {
		st, err := s.gateways.Status(r.Context(), struct{}{})
		if err != nil {
			return nil, nil, false
		}
		var b bytes.Buffer
		if now := string(html.Fragment(gateways(st))); now != shown {
			shown = now
			event(&b, "list", now, "")
		}
		return b.Bytes(), nil, true
	})
}

// follow sends what next says, until the request ends: it is asked at every look, and when changed is closed. Where a look
// brings nothing to send, a beat is sent; where it fails nothing is, and the page shows that.
func (s *Section) follow(w http.ResponseWriter, r *http.Request, next func(looking bool) (out []byte, changed <-chan struct{}, ok bool)) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Time{}) // a connection without deadlines is a test's
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy in front passes on what it gets
	tick := time.NewTicker(look)
	defer tick.Stop()
	for looking := true; ; {
		out, changed, ok := next(looking)
		if looking && ok && len(out) == 0 {
			out = []byte(page.StreamBeat)
		}
		if len(out) > 0 {
			_ = conn.SetWriteDeadline(time.Now().Add(writeWithin))
			if _, err := w.Write(out); err != nil || conn.Flush() != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			if errors.Is(context.Cause(r.Context()), login.ErrNotGood) {
				_ = conn.SetWriteDeadline(time.Now().Add(writeWithin))
				_, _ = w.Write([]byte(page.StreamEnd)) // whoever asked may be gone
			}
			return
		case <-changed:
			looking = false
		case <-tick.C:
			looking = true
		}
	}
}

// stream is what one browser was told.
type stream struct {
	section *Section
	i       manage.InstanceStatus

	mark   string // of the last view
	state  string // as it was shown
	typing bool
}

// next are the events of what changed since the last one, and what is closed at the next change.
func (st *stream) next() (out []byte, changed <-chan struct{}) {
	s := st.section
	v := s.rooms.View(relay.ChatID(st.i.ID), st.mark)
	var b bytes.Buffer
	if v.Whole {
		event(&b, "reload", "", v.Mark)
		return b.Bytes(), nil // the page loads itself again, which ends this stream
	}
	s.rendering.Lock()
	for _, m := range v.Messages {
		if m.Gone {
			event(&b, "gone", elementID(m.ID), v.Mark)
		} else {
			event(&b, "put", string(html.Fragment(message(st.i.ID, m))), v.Mark)
		}
	}
	s.rendering.Unlock()
	if shown := string(html.Fragment(state(st.i))); shown != st.state {
		event(&b, "state", shown, v.Mark)
		st.state = shown
	}
	if v.Typing != st.typing {
		event(&b, "typing", map[bool]string{true: "1", false: "0"}[v.Typing], v.Mark)
		st.typing = v.Typing
	}
	st.mark = v.Mark
	return b.Bytes(), v.Changed
}

// event writes one event. A carriage return, which would end a line of it, can only stand in a text.
func event(w io.StringWriter, name, data, id string) {
	_, _ = w.WriteString("id: " + id + "\nevent: " + name + "\n") // into memory
	for line := range strings.SplitSeq(strings.ReplaceAll(data, "\r", "&#13;"), "\n") {
		_, _ = w.WriteString("data: " + line + "\n")
	}
	_, _ = w.WriteString("\n")
}
