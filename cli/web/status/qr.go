package status

import (
	"strconv"

	"github.com/hermes-connector/hermes-connector/cli/qr"
	"github.com/hermes-connector/hermes-connector/cli/web/html"
)

// code draws text as a code for a phone; nil if it is too long for one.
func code(text, label string) html.Node {
	rows := qr.Rows(text)
	if rows == nil {
		return nil
	}
	size := strconv.Itoa(len(rows))
	return html.El("svg", html.Attr("class", "qr"), html.Attr("role", "img"), html.Attr("aria-label", label),
		html.Attr("viewBox", "0 0 "+size+" "+size), html.Attr("shape-rendering", "crispEdges"),
		html.El("path", html.Attr("d", squares(rows))))
}

// squares is a path around all runs of dark modules.
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
