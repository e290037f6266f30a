package day

import (
	"strconv"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
)

// height is the chart's, in its own units, as it stands in Chart's markup; a slot is one unit wide.
const height = 40

// Chart draws values, one per slot, from zero to the largest. label says in words what it shows.
func Chart(label string, values []float64) html.Node {
	line, width := outline(values), strconv.Itoa(len(values)-1)
	return html.Form(`<svg class="chart" role="img" aria-label="{}" viewBox="0 -1 {} 42" preserveAspectRatio="none">`+
		`<path class="base" d="M0 40H{}"></path><path class="fill" d="{}V40H0Z"></path><path class="line" d="{}"></path></svg>`,
		label, width, width, line, line)
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
