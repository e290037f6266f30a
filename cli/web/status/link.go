package status

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/qr"
	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// maxLink bounds a deep link, in bytes.
const maxLink = 1 << 10

// link makes a link code for a gateway and shows it. The code is shown only here.
func (s *Section) link(w http.ResponseWriter, r *http.Request) {
	name := page.Form(w, r).Get("gateway")
	l, err := s.o.Service.Link(r.Context(), page.Actor(r.Context()), manage.LinkFor{Name: name})
	if err != nil {
		s.notDone(w, "There is no code", err)
		return
	}
	shown := struct {
		Gateway   string
		Code      string
		ExpiresAt time.Time
		Links     []deepLink
		Bang      []string // the networks where people write "!link", because "/" does not reach a bot
	}{name, l.Code, l.ExpiresAt, nil, nil}
	for _, p := range l.Bang {
		shown.Bang = append(shown.Bang, label(s.o.Labels, p))
	}
	for _, p := range slices.Sorted(maps.Keys(l.DeepLinks)) {
		if address := l.DeepLinks[p]; len(address) <= maxLink && strings.HasPrefix(address, "https://") {
			rows := qr.Rows(address)
			shown.Links = append(shown.Links, deepLink{label(s.o.Labels, p), address, len(rows), squares(rows)})
		}
	}
	page.Answer(w, http.StatusOK, page.Page{Title: "Link a person", Here: page.Status, Main: templates.HTML("link", shown)})
}

// deepLink is an address that sends a link code to a bot, with its QR code.
type deepLink struct {
	Label, Address string // Label is the network's name for people
	Size           int    // the width of the QR code, in modules; 0: the address is too long for a QR code
	Squares        string // the dark modules, as an SVG path
}

// squares returns the SVG path around the dark modules of rows, with one rectangle for each run of them in a row.
func squares(rows [][]bool) string {
	var d []byte
	for y, row := range rows {
		for x := 0; x < len(row); x++ {
			if !row[x] {
				continue
			}
			from := x
			for x+1 < len(row) && row[x+1] {
				x++
			}
			n := int64(x - from + 1)
			d = strconv.AppendInt(append(d, 'M'), int64(from), 10)
			d = strconv.AppendInt(append(d, ' '), int64(y), 10)
			d = strconv.AppendInt(append(d, 'h'), n, 10)
			d = strconv.AppendInt(append(d, "v1h"...), -n, 10)
			d = append(d, 'z')
		}
	}
	return string(d)
}
