package page

import (
	"bytes"
	_ "embed"
	"html/template"
	"regexp"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

//go:embed frame.html
var frameText string

// Templates are markup that values are put into, each by its name. Those of the frame are always among them: "lost", "clock", "date"
// and "sentence" are for every page.
type Templates struct{ t *template.Template }

var frame = Templates{template.New("")}.with(frameText, template.FuncMap{
	"icon":    func() string { return icon.Path },
	"style":   func() string { return style.Path },
	"script":  func() string { return script.Path },
	"stamp":   finding.Stamp,
	"clock":   finding.Clock,
	"date":    func(t time.Time) string { return t.Local().Format("2 Jan 2006") },
	"moments": finding.Moments,
})

// Parse reads a section's templates, which are part of the program, and may use funcs. It is for variables of packages: once one of
// the frame's was used, no other can stand beside them.
func Parse(text string, funcs template.FuncMap) Templates { return frame.with(text, funcs) }

var indent = regexp.MustCompile(`\n\s*`)

// with is t with the templates of text beside its own. The ends of lines, and how they are indented, are no part of them.
func (t Templates) with(text string, funcs template.FuncMap) Templates {
	all := template.Must(t.t.Clone()).Funcs(funcs)
	return Templates{template.Must(all.Parse(indent.ReplaceAllString(text, "")))}
}

// HTML is the template of that name with value in it. It leaves out what is not relay.Visible: control characters, and what turns the
// direction of what stands around it.
func (t Templates) HTML(name string, value any) template.HTML {
	var b bytes.Buffer
	if err := t.t.ExecuteTemplate(&b, name, value); err != nil {
		panic(err) // the template does not fit the value: a mistake in the program
	}
	return template.HTML(bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || relay.Visible(r) {
			return r
		}
		return -1
	}, bytes.ToValidUTF8(b.Bytes(), []byte("\uFFFD"))))
}
