package metrics

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// contentType is Prometheus' text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// family is a metric: its name, its help text, and the names of its labels.
type family struct {
	name, help string
	kind       string // "counter" or "gauge"
	labels     []string
}

func gauge(name, help string, labels ...string) family {
	return family{name, help, "gauge", labels}
}

func counter(name, help string, labels ...string) family {
	return family{name, help, "counter", labels}
}

// page is the answer to one scrape. The format is small and has not changed since 2014; the usual library for it would
// make the program larger by a seventh, mostly for a wire format that nobody requests. The tests read the page with
// that library.
type page map[string]*group

// group is a family with its samples, in the order they were added.
type group struct {
	family family
	lines  []string
}

// add puts a sample on the page, with one value per label of f.
func (p page) add(f family, value float64, labels ...string) {
	g := p[f.name]
	if g == nil {
		g = &group{family: f}
		p[f.name] = g
	}
	var b strings.Builder
	b.WriteString(f.name)
	for n, name := range f.labels {
		b.WriteByte("{,"[min(n, 1)]) // "{" before the first label, "," before each further one
		b.WriteString(name + `="` + labelEscapes.Replace(labels[n]) + `"`)
	}
	if len(f.labels) > 0 {
		b.WriteByte('}')
	}
	b.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64))
	g.lines = append(g.lines, b.String())
}

// labelEscapes escapes label values as the format demands. It also serves help texts, because ours contain none of
// these characters.
var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// write sends the page, families by name.
func (p page) write(w io.Writer) error {
	out := bufio.NewWriter(w)
	line := func(words ...string) {
		_, _ = out.WriteString(strings.Join(words, " ") + "\n") // Flush reports what failed
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		g := p[name]
		line("# HELP", name, g.family.help)
		line("# TYPE", name, g.family.kind)
		for _, l := range g.lines {
			line(l)
		}
	}
	return out.Flush()
}
