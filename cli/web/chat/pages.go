package chat

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay"
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
	var cards []html.Node
	for _, i := range st.Instances {
		mark, sentence := standing(i)
		cards = append(cards, html.El("li", html.Attr("class", "card"),
			html.El("h2", html.El("a", html.Attr("href", path(i.ID, "")), html.Text(string(i.ID)))),
			html.El("p", html.Attr("class", mark), html.Text(sentence)),
		))
	}
	main := []html.Node{html.El("h1", html.Text("Chat"))}
	if len(cards) == 0 {
		main = append(main, html.El("p", html.Text("There is no gateway yet. On the machine of the server, run:")),
			html.El("pre", html.El("code", html.Text("hermes-connector enroll home"))),
			html.El("p", html.Text("It prints the lines that the gateway needs in its .env.")))
	} else {
		main = append(main, html.El("p", html.Text("Pick a gateway and talk to it. What you write goes the way of every message, so an answer shows that all of it works.")),
			html.El("ul", append([]html.Node{html.Attr("class", "plain cards chats")}, cards...)...))
	}
	page.Answer(w, http.StatusOK, page.Page{Title: "Chat", Here: page.Chat, Styles: []string{style.Path}, Main: main})
}

// standing is how a gateway is, in a sentence, and the class of the words.
func standing(i manage.InstanceStatus) (mark, sentence string) {
	name := string(i.ID)
	switch {
	case i.State == manage.Connected:
		mark, sentence = "good", name+" is connected."
	case i.State == manage.Asleep:
		mark, sentence = "good", name+" is asleep, and wakes when you write."
	case i.LastSeenAt.IsZero():
		mark, sentence = "warn", name+" has never connected. What you write waits for it."
	default:
		mark, sentence = "warn", name+" is away since "+clock(i.LastSeenAt)+". What you write waits for it."
	}
	if i.Backlog == 1 {
		sentence += " 1 message waits."
	} else if i.Backlog > 1 {
		sentence += fmt.Sprintf(" %d messages wait.", i.Backlog)
	}
	return mark, sentence
}

// clock is a time as people say it: with the day, unless that is today.
func clock(at time.Time) string {
	at = at.Local()
	if now := time.Now(); at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04")
	}
	return at.Format("2 Jan 2006 15:04")
}

// state is what stands above a room.
func state(i manage.InstanceStatus) html.Node {
	mark, sentence := standing(i)
	nodes := []html.Node{html.Attr("id", "state"), html.Attr("role", "status"),
		html.El("p", html.Attr("class", mark), html.Text(sentence))}
	for _, w := range i.Warnings {
		nodes = append(nodes, html.El("p", html.Attr("class", "warn"), html.Text(w)))
	}
	return html.El("div", nodes...)
}

// room shows a gateway's room.
func (s *Section) room(w http.ResponseWriter, r *http.Request, i manage.InstanceStatus) {
	v := s.rooms.View(relay.ChatID(i.ID), "")
	items := []html.Node{html.Attr("id", "messages"), html.Attr("class", "plain")}
	s.rendering.Lock()
	for _, m := range v.Messages {
		items = append(items, message(i.ID, m))
	}
	s.rendering.Unlock()
	name := string(i.ID)
	page.Answer(w, http.StatusOK, page.Page{
		Title: "Chat with " + name, Here: page.Chat, Styles: []string{style.Path}, Scripts: []string{script.Path},
		Main: []html.Node{
			html.El("p", html.El("a", html.Attr("href", page.Chat), html.Text("All gateways"))),
			html.El("h1", html.Text("Chat with "+name)),
			state(i),
			html.El("div", html.Attr("id", "log"), html.Attr("role", "log"), html.Attr("aria-label", "Messages"),
				html.Attr("data-live", path(i.ID, "/live")), html.Attr("data-since", v.Mark),
				html.El("ul", items...)),
			html.El("p", html.Attr("id", "typing"), html.Attr("class", "dim"), html.Attr("role", "status"), html.Attr("data-words", name+" is typing …")),
			sayForm(i.ID),
			html.El("noscript", html.El("p", html.Attr("class", "dim"), html.Text("Without script, answers show when you load the page again."))),
		},
	})
}

// sayForm is where the person writes.
func sayForm(id relay.InstanceID) html.Node {
	return html.El("form", html.Attr("id", "say"), html.Attr("method", "post"), html.Attr("action", path(id, "/say")),
		html.Attr("enctype", "multipart/form-data"),
		html.El("p", html.Attr("id", "trouble"), html.Attr("class", "bad"), html.Attr("role", "alert")),
		html.El("label", html.Attr("for", "text"), html.Text("Message")),
		html.El("textarea", html.Attr("id", "text"), html.Attr("name", "text"), html.Attr("rows", "2"), html.Flag("autofocus", true)),
		html.El("div", html.Attr("class", "row"),
			html.El("span",
				html.El("label", html.Attr("for", "files"), html.Text("Files")),
				html.El("input", html.Attr("id", "files"), html.Attr("type", "file"), html.Attr("name", "files"), html.Flag("multiple", true))),
			html.El("button", html.Text("Send"))),
	)
}
