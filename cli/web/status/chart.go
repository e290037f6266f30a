package status

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// height is the height of a chart in its own units, as in its template; a slot is one unit wide.
const height = 40

// chart is a line chart with one point per slot, from zero to the largest value. Words describe it.
type chart struct {
	Title, Words string
	Top          string // the largest value; empty: all values are zero
	Line         string // an SVG path
	Width        int    // in slots
}

// Charts returns the charts of the last day.
func (v view) Charts() []chart {
	n := len(v.lines)
	in, out, waiting, took := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	var allIn, allOut, most int
	var longest time.Duration
	for i, l := range v.lines {
		in[i], out[i], waiting[i], took[i] = float64(l.In), float64(l.Out), float64(l.Waiting), float64(l.Delay)
		allIn, allOut, most, longest = allIn+int(l.In), allOut+int(l.Out), max(most, int(l.Waiting)), max(longest, l.Delay)
	}
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	took24, top := "no message yet", ""
	if longest > 0 {
		top = delay(longest)
		took24 = "at most " + top + " on average over " + span(slotFor)
	}
	messages := func(title string, all int, values []float64) chart {
		top, words := int(slices.Max(values)), "none"
		if all > 0 {
			words = fmt.Sprintf("%d in all, at most %d in %s", all, top, span(slotFor))
		}
		return chart{title, words, number(top), outline(values), n - 1}
	}
	waits := "nothing"
	if most > 0 {
		waits = "at most " + strconv.Itoa(most)
	}
	return []chart{
		messages("Messages in", allIn, in),
		messages("Messages out", allOut, out),
		{"Waiting", waits, number(most), outline(waiting), n - 1},
		{"Delivery delay", took24, top, outline(took), n - 1},
	}
}

// Hours returns the times for the four labels below a chart, six hours apart: the first is 24 hours ago.
func (v view) Hours() (all []time.Time) {
	for n := range 4 {
		all = append(all, v.At.Truncate(slotFor).Add(time.Duration(n-4)*6*time.Hour))
	}
	return all
}

// outline returns the SVG path through values, scaled to height. It leaves out points whose two neighbours are as high.
func outline(values []float64) string {
	top := slices.Max(values)
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
