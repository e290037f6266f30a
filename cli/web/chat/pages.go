package chat

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/platforms/local"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// path is a page of a gateway's; below is empty or begins with "/".
func path(id relay.InstanceID, below string) string {
	return page.Chat + "/" + url.PathEscape(string(id)) + below
}

// list shows the gateways there are.
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

// standing are the gateways that were not revoked.
func standing(st manage.Status) (all []manage.InstanceStatus) {
	for _, i := range st.Instances {
		if !i.Revoked {
			all = append(all, i)
		}
	}
	return all
}

// called is what people call a gateway.
func called(i manage.InstanceStatus) string { return cmp.Or(i.Name, string(i.ID)) }

// how is how a gateway is: a sentence, and the class of the words.
type how struct{ Class, Words string }

func howIs(i manage.InstanceStatus) (h how) {
	name := called(i)
	switch {
	case i.Revoked:
		return how{"bad", name + " was revoked. Nothing can be sent to it."}
	case i.State == manage.Connected:
		h = how{"good", name + " is connected."}
	case i.State == manage.Asleep && len(i.Notes) > 0:
		h = how{"good", name + " is asleep."}
	case i.State == manage.Asleep:
		h = how{"good", name + " is asleep, and wakes when you write."}
	case i.LastSeenAt.IsZero():
		h = how{"warn", name + " has never connected. What you write waits for it."}
	default:
		h = how{"warn", name + " is away since " + finding.Stamp(i.LastSeenAt) + ". What you write waits for it."}
	}
	for _, n := range i.Notes {
		h.Words += " It is " + n.Says + "."
	}
	if i.Backlog == 1 {
		h.Words += " 1 message waits."
	} else if i.Backlog > 1 {
		h.Words += fmt.Sprintf(" %d messages wait.", i.Backlog)
	}
	return h
}

// room shows a gateway's room.
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
	Began    time.Time // of the room's memory
}

func shownOf(i manage.InstanceStatus, v local.View) shownRoom {
	return shownRoom{i, messages(i, v), v.Mark, v.Began}
}

// messages are those of a view, for their template.
func messages(i manage.InstanceStatus, v local.View) []message {
	all := make([]message, len(v.Messages))
	for n, m := range v.Messages {
		all[n] = message{m, i.ID, called(i)}
	}
	return all
}
