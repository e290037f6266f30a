package chat

import (
	"html/template"
	"net/http"
	"strings"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// live streams the changes in a room as server-sent events: "put" a message's element, "gone" its id, "state" the
// element with that id, "typing" 1 or 0, "whole" the path of the page's script and the whole room (when the page shows
// the room of an earlier run), "end" when the session has ended.
func (s *Section) live(w http.ResponseWriter, r *http.Request, i manage.InstanceStatus) {
	st := &stream{section: s, i: i, mark: r.URL.Query().Get("since")}
	s.streams.Follow(w, r, func(looking bool) (events string, changed <-chan struct{}, ok bool) {
		if looking {
			now, err := s.gateways.Status(r.Context(), struct{}{})
			if ok = err == nil; ok {
				st.i = standsFor(now, i.ID)
			}
		}
		events, changed = st.next()
		return events, changed, ok
	})
}

// liveList streams the state of the gateways: "list" is the whole list, sent when a gateway has changed.
func (s *Section) liveList(w http.ResponseWriter, r *http.Request) {
	var shown template.HTML
	s.streams.Follow(w, r, func(bool) (events string, changed <-chan struct{}, ok bool) {
		st, err := s.gateways.Status(r.Context(), struct{}{})
		if err != nil {
			return "", nil, false
		}
		if now := templates.HTML("gateways", standing(st)); now != shown {
			shown = now
			events = page.Event("list", "", string(now))
		}
		return events, nil, true
	})
}

// stream remembers what one browser has received.
type stream struct {
	section *Section
	i       manage.InstanceStatus

	mark   string        // of the last view
	state  template.HTML // as it was sent last
	typing bool          // as it was sent last
}

// next returns the events for the changes since its last call, and a channel that is closed at the next change.
func (st *stream) next() (events string, changed <-chan struct{}) {
	s := st.section
	v := s.rooms.View(relay.ChatID(st.i.ID), st.mark)
	var out strings.Builder
	event := func(name, data string) { out.WriteString(page.Event(name, v.Mark, data)) }
	s.rendering.Lock()
	if v.Whole {
		event("whole", script.Path+"\n"+string(templates.HTML("log", shownOf(st.i, v))))
	}
	for _, m := range messages(st.i, v) {
		switch {
		case v.Whole:
		case m.Gone:
			event("gone", "m-"+string(m.ID))
		default:
			event("put", string(templates.HTML("message", m)))
		}
	}
	s.rendering.Unlock()
	if shown := templates.HTML("state", st.i); shown != st.state {
		event("state", string(shown))
		st.state = shown
	}
	if v.Typing != st.typing {
		event("typing", map[bool]string{true: "1", false: "0"}[v.Typing])
		st.typing = v.Typing
	}
	st.mark = v.Mark
	return out.String(), v.Changed
}
