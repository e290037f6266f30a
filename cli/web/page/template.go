package page

import (
	"bytes"
	_ "embed"
	"html/template"
	"regexp"
	"sync"
	"time"

	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/finding"
)

//go:embed frame.html
var frameText string

// Templates are named pieces of markup into which values are put. The frame's templates are always among them; of
// those, "lost", "clock", "date" and "sentence" are for use in any page.
type Templates struct{ parsed func() *template.Template }

var frame = Parse("", nil)

var frameFuncs = template.FuncMap{
	"icon":    func() string { return icon.Path },
	"picture": func() string { return small.Path },
	"app":     func() string { return app.Path },
	"style":   func() string { return style.Path },
	"script":  func() string { return script.Path },
	"stamp":   finding.Stamp,
	"clock":   finding.Clock,
	"date":    func(t time.Time) string { return t.Local().Format("2 Jan 2006") },
	"moments": finding.Moments,
}

var indent = regexp.MustCompile(`\n\s*`)

// Parse makes a section's templates from text, which is part of the program and may use funcs. It drops line ends and
// indentation. It parses when the first template is used: commands, and servers whose pages nobody opens, need none.
func Parse(text string, funcs template.FuncMap) Templates {
	return Templates{sync.OnceValue(func() *template.Template {
		t := template.New("").Funcs(frameFuncs).Funcs(funcs)
		for _, text := range []string{frameText, text} {
			template.Must(t.Parse(indent.ReplaceAllString(text, "")))
		}
		return t
	})}
}

// HTML returns the template of that name with value in it. It leaves out characters that are not relay.Visible: control
// characters, and those that turn the direction of the text around them.
func (t Templates) HTML(name string, value any) template.HTML {
	var b bytes.Buffer
	if err := t.parsed().ExecuteTemplate(&b, name, value); err != nil {
		panic(err) // the template does not fit the value: a mistake in the program
	}
	return template.HTML(bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || relay.Visible(r) {
			return r
		}
		return -1
	}, bytes.ToValidUTF8(b.Bytes(), []byte("\uFFFD"))))
}
