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
	_ = r.ParseForm() // one that cannot be read names no gateway
	name := r.PostForm.Get("gateway")
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
	var links []html.Node
	for _, p := range slices.Sorted(maps.Keys(l.DeepLinks)) {
		address, label := l.DeepLinks[p], s.label(p)
		if len(address) > maxLink || !strings.HasPrefix(address, "https://") {
			continue
		}
		links = append(links, html.Form(`<h2>With {}</h2><p><a href="{}" rel="noreferrer">Open {}</a></p><p>Or scan this with a phone:</p>{}`,
			label, address, label, code(address, "The link to "+label+" as a QR code")))
	}
	main := html.Form(`<h1>Link a person to {}</h1><p>Whoever sends this to a bot in a direct message, before {}, reaches {}. It is good for one person.</p>`+
		`<p class="secret"><code>/link {}</code></p>{}<p><a href="/">Back to the status</a></p>`,
		name, page.Clock(l.ExpiresAt), name, l.Code, html.Group(links...))
	page.Answer(w, http.StatusOK, page.Page{Title: "Link a person", Here: page.Status, Main: []html.Node{main}})
}
