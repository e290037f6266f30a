package chat

import (
	"net/http"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// list answers with the page of all gateways.
func (s *Section) list(w http.ResponseWriter, r *http.Request) {
	st, err := s.gateways.Status(r.Context(), struct{}{})
	if err != nil {
		unreadable(w)
		return
	}
	page.Answer(w, http.StatusOK, page.Page{
		Title: "Chat", Here: page.Chat, Styles: []string{styles.Path}, Scripts: []string{listScript.Path}, Main: templates.HTML("list", standing(st)),
	})
}

// room answers with the page of a gateway's room.
func (s *Section) room(w http.ResponseWriter, _ *http.Request, i manage.InstanceStatus) {
	v := s.rooms.View(relay.ChatID(i.ID), "")
	s.rendering.Lock()
	main := templates.HTML("room", shownOf(i, v))
	s.rendering.Unlock()
	page.Answer(w, http.StatusOK, page.Page{
		Title: "Chat with " + called(i), Here: page.Chat, Styles: []string{styles.Path}, Scripts: []string{script.Path}, Main: main,
	})
}

// shownRoom is a room, for the templates "room" and "log".
type shownRoom struct {
	Gateway  manage.InstanceStatus
	Messages []message
	Mark     string
	Began    time.Time // when the server began to keep the messages, in memory only
}

func shownOf(i manage.InstanceStatus, v local.View) shownRoom {
	return shownRoom{i, messages(i, v), v.Mark, v.Began}
}

// messages returns the messages of a view, for their template.
func messages(i manage.InstanceStatus, v local.View) []message {
	all := make([]message, len(v.Messages))
	for n, m := range v.Messages {
		all[n] = message{m, i.ID, called(i)}
	}
	return all
}
