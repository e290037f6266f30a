package chat

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
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
		Title: "Chat", Here: page.Chat, Styles: []string{style.Path}, Scripts: []string{listScript.Path},
		Main: []html.Node{page.Lost(), html.Form(`<h1>Chat</h1><div id="chats">{}</div>`, gateways(st))},
	})
}

// gateways are those there are, with how they are.
func gateways(st manage.Status) html.Node {
	var cards []html.Node
	for _, i := range st.Instances {
		if i.Revoked {
			continue
		}
		mark, sentence := standing(i)
		cards = append(cards, html.Form(`<li class="card"><h2><a href="{}">{}</a></h2><p class="{}">{}</p></li>`, path(i.ID, ""), string(i.ID), mark, page.Sentence(sentence)))
	}
	if len(cards) == 0 {
		return html.Form(`<p>There is no gateway yet. On the machine of the server, run:</p><pre><code>hermes-connector enroll home</code></pre>` +
			`<p>It prints the lines that the gateway needs in its .env.</p>`)
	}
	return html.Form(`<p>Pick a gateway and talk to it. What you write goes the way of every message, so an answer shows that all of it works.</p>`+
		`<ul class="plain cards chats">{}</ul>`, html.Group(cards...))
}

// standing is how a gateway is, in a sentence, and the class of the words.
func standing(i manage.InstanceStatus) (mark, sentence string) {
	name := string(i.ID)
	switch {
	case i.Revoked:
		return "bad", name + " was revoked. Nothing can be sent to it."
	case i.State == manage.Connected:
		mark, sentence = "good", name+" is connected."
	case i.State == manage.Asleep:
		mark, sentence = "good", name+" is asleep, and wakes when you write."
	case i.LastSeenAt.IsZero():
		mark, sentence = "warn", name+" has never connected. What you write waits for it."
	default:
		mark, sentence = "warn", name+" is away since "+finding.Stamp(i.LastSeenAt)+". What you write waits for it."
	}
	if i.Backlog == 1 {
		sentence += " 1 message waits."
	} else if i.Backlog > 1 {
		sentence += fmt.Sprintf(" %d messages wait.", i.Backlog)
	}
	return mark, sentence
}

// state is what stands above a room.
func state(i manage.InstanceStatus) html.Node {
	mark, sentence := standing(i)
	var warnings []html.Node
	for _, w := range i.Warnings {
		warnings = append(warnings, html.Form(`<p class="warn">{}</p>`, page.Sentence(w)))
	}
	return html.Form(`<div id="state" class="now" role="status"><p class="{}">{}</p>{}</div>`, mark, page.Sentence(sentence), html.Group(warnings...))
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
			page.Lost(), state(i),
			html.Form(`<div id="log" role="log" aria-label="Messages" data-live="{}" data-since="{}">{}</div>`+
				`<p id="typing" class="dim now" role="status" data-words="{}"></p>`, path(i.ID, "/live"), v.Mark, html.El("ul", items...), name+" is typing …"),
			sayForm(i.ID),
			html.Form(`<noscript><p class="dim">Without script, answers show when you load the page again.</p></noscript>`),
		},
	})
}

// sayForm is where the person writes.
func sayForm(id relay.InstanceID) html.Node {
	return html.Form(`<form id="say" method="post" action="{}" enctype="multipart/form-data"><p id="trouble" class="bad" role="alert"></p>`+
		`<label for="text">Message</label><textarea id="text" name="text" rows="2" autofocus=""></textarea><div class="row"><span>`+
		`<label for="files">Files</label><input id="files" type="file" name="files" multiple=""></span><button>Send</button></div></form>`, path(id, "/say"))
}
