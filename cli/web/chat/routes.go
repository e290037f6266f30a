package chat

import (
	"net/http"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// Mount adds the pages to mux.
func (s *Section) Mount(mux *http.ServeMux, guard func(http.Handler) http.Handler) {
	page.Mount(mux, script, listScript, styles)
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request, manage.InstanceStatus){
		"GET /chat/{gateway}":            s.room,
		"GET /chat/{gateway}/live":       s.live,
		"GET /chat/{gateway}/files/{id}": s.file,
		"POST /chat/{gateway}/say":       s.say,
		"POST /chat/{gateway}/press":     s.press,
	} {
		mux.Handle(pattern, guard(s.ofGateway(h)))
	}
	mux.Handle("GET /chat", guard(http.HandlerFunc(s.list)))
	mux.Handle("GET /chats/live", guard(http.HandlerFunc(s.liveList))) // not below "/chat/", where gateways' names are
}

// ofGateway calls h with the gateway that the path names, if it exists.
func (s *Section) ofGateway(h func(http.ResponseWriter, *http.Request, manage.InstanceStatus)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		st, err := s.gateways.Status(r.Context(), struct{}{})
		if err != nil {
			unreadable(w)
			return
		}
		i := standsFor(st, relay.InstanceID(r.PathValue("gateway")))
		if i.Revoked {
			fail(w, r, http.StatusNotFound, "There is no such gateway", "It was revoked, or never enrolled.")
			return
		}
		h(w, r, i)
	})
}
