package status

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay/manage"
	"github.com/hermes-connector/hermes-connector/store/audit"
)

const (
	maxForm = 4 << 10 // bytes
	// maxLink bounds a deep link, in bytes.
	maxLink = 1 << 10
)

// link makes a link code for a gateway and shows it. It is shown this once.
func (s *Section) link(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	name := r.PostFormValue("gateway")
	l, err := s.o.Service.Link(r.Context(), audit.Actor{Kind: audit.ActorWeb}, manage.LinkFor{Name: name})
	if refused, ok := errors.AsType[*manage.Error](err); ok {
		page.Answer(w, http.StatusConflict, page.Words(page.Status, "There is no code", refused.Message))
		return
	}
	if err != nil {
		page.Answer(w, http.StatusServiceUnavailable, page.Words(page.Status, "There is no code",
			"It could not be stored. hermes-connector doctor says why."))
		return
	}
	nodes := []html.Node{
		html.El("h1", html.Text("Link a person to "+name)),
		html.El("p", html.Text("Whoever sends this to a bot in a direct message, before "+l.ExpiresAt.Local().Format("15:04")+", reaches "+name+". It is good for one person.")),
		html.El("p", html.Attr("class", "secret"), html.El("code", html.Text("/link "+l.Code))),
	}
	for _, p := range slices.Sorted(maps.Keys(l.DeepLinks)) {
		address := l.DeepLinks[p]
		if len(address) > maxLink || !strings.HasPrefix(address, "https://") {
			continue
		}
		nodes = append(nodes, html.El("h2", html.Text("With "+s.label(p))),
			html.El("p", html.El("a", html.Attr("href", address), html.Attr("rel", "noreferrer"), html.Text("Open "+s.label(p)))),
			html.El("p", html.Text("Or scan this with a phone:")), code(address, "The link to "+s.label(p)+" as a QR code"))
	}
	nodes = append(nodes, html.El("p", html.El("a", html.Attr("href", page.Status), html.Text("Back to the status"))))
	page.Answer(w, http.StatusOK, page.Page{Title: "Link a person", Here: page.Status, Main: nodes})
}
