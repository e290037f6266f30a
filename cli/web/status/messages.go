package status

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/cli/words"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// maxMessages is how many messages the page shows.
const maxMessages = 200

// asked is a request to the page of messages, as a person typed it, and what is wrong with it.
type asked struct{ Since, Person, Gateway, Wrong string }

// messages shows the requested messages of the last thirty days.
func (s *Section) messages(w http.ResponseWriter, r *http.Request) {
	v, err := s.look(r.Context())
	q := r.URL.Query()
	v.Asked = asked{Since: q.Get("since"), Person: strings.TrimSpace(q.Get("person")), Gateway: strings.TrimSpace(q.Get("gateway"))}
	v.Verdicts = nil
	e := manage.Explain{Person: v.Asked.Person, Gateway: v.Asked.Gateway, Last: maxMessages}
	if v.Asked.Since != "" {
		var ok bool
		if e.Since, ok = words.Since(v.Asked.Since, v.At); !ok {
			v.Asked.Wrong = "That is no time: type 2d, 12h, or a day such as 2026-11-27."
		}
	}
	if err == nil && v.Asked.Wrong == "" {
		v.Verdicts, err = s.o.Service.Explain(r.Context(), e)
		if refused, ok := errors.AsType[*manage.Error](err); ok {
			v.Asked.Wrong, err = refused.Error(), nil
		}
	}
	if err != nil {
		s.unreadable(w, "The messages could not be read")
		return
	}
	v.Verdicts = slices.Clone(v.Verdicts)
	slices.Reverse(v.Verdicts)
	page.Answer(w, http.StatusOK, page.Page{Title: "Messages", Here: page.Status, Main: templates.HTML("messages", v)})
}
