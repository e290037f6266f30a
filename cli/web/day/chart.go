package day

import (
	"strconv"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
)

// height is the chart's, in its own units; a slot is one unit wide.
const height = 40

// Chart draws values, one per slot, from zero to the largest. label says in words what it shows.
func Chart(label string, values []float64) html.Node {
	line := outline(values)
	width := strconv.Itoa(len(values) - 1)
	return html.El("svg",
		html.Attr("class", "chart"), html.Attr("role", "img"), html.Attr("aria-label", label),
		html.Attr("viewBox", "0 -1 "+width+" "+strconv.Itoa(height+2)), html.Attr("preserveAspectRatio", "none"),
		html.El("path", html.Attr("class", "base"), html.Attr("d", "M0 "+strconv.Itoa(height)+"H"+width)),
		html.El("path", html.Attr("class", "fill"), html.Attr("d", line+"V"+strconv.Itoa(height)+"H0Z")),
		html.El("path", html.Attr("class", "line"), html.Attr("d", line)),
	)
}

// outline is the path through values. A point on the line between its neighbours takes no bytes.
func outline(values []float64) string {
	top := 0.0
	for _, v := range values {
		top = max(top, v)
	}
	ys := make([]int, len(values))
	for i, v := range values {
		if ys[i] = height; top > 0 {
			ys[i] -= int(v/top*height + 0.5)
		}
	}
	var d []byte
	for i, y := range ys {
		if i > 0 && i+1 < len(ys) && y == ys[i-1] && y == ys[i+1] {
			continue
		}
		d = append(d, "ML"[min(i, 1)])
		d = strconv.AppendInt(d, int64(i), 10)
		d = append(d, ' ')
		d = strconv.AppendInt(d, int64(y), 10)
	}
	return string(d)
}
