// Package html makes HTML out of values, so that nothing a person or a gateway named can be read as markup: every text
// and every attribute's value is escaped where it is written, and the names of elements and attributes are constants of
// the source. The standard library's html/template does more, and costs 3.1 MB of the binary, since its use of
// reflection keeps every method of every type.
//
// Invariant: whatever the values are, the document has the elements and attributes that the source names, and no others.
package html

import (
	"bytes"
	"html"
	"slices"
	"strings"
)

// Node is an element, a text or an attribute.
type Node interface{ write(*bytes.Buffer) }

// name is of an element or an attribute. Its type is not exported, so that only constants become one.
type name string

// void are the elements that have no content and no end.
var void = []name{"input", "meta", "link", "br", "hr", "img", "use"}

type element struct {
	name  name
	attrs []attr
	nodes []Node
}

// El is an element with attributes and content, in their order. Nil nodes are left out.
//
//go:noinline
func El(n name, content ...Node) Node {
	e := element{name: n}
	for _, c := range content {
		switch c := c.(type) {
		case nil:
		case attr:
			e.attrs = append(e.attrs, c)
		default:
			e.nodes = append(e.nodes, c)
		}
	}
	return e
}

func (e element) write(b *bytes.Buffer) {
	b.WriteByte('<')
	b.WriteString(string(e.name))
	for _, a := range e.attrs {
		a.write(b)
	}
	b.WriteByte('>')
	if slices.Contains(void, e.name) {
		return
	}
	for _, n := range e.nodes {
		n.write(b)
	}
	b.WriteString("</")
	b.WriteString(string(e.name))
	b.WriteByte('>')
}

type attr struct {
	name  name
	value string
}

// The makers of nodes are not inlined: pages are hundreds of calls of them.

// Attr is an attribute. A value that is an address must begin with a constant "/", or be one that this program made.
//
//go:noinline
func Attr(n name, value string) Node { return attr{n, value} }

// Flag is an attribute without a value, if on.
//
//go:noinline
func Flag(n name, on bool) Node {
	if !on {
		return nil
	}
	return attr{name: n}
}

func (a attr) write(b *bytes.Buffer) {
	b.WriteByte(' ')
	b.WriteString(string(a.name))
	b.WriteString(`="`)
	b.WriteString(escape(a.value))
	b.WriteByte('"')
}

type text string

// Text is what a person reads.
//
//go:noinline
func Text(s string) Node { return text(s) }

func (t text) write(b *bytes.Buffer) { b.WriteString(escape(string(t))) }

// escape makes s safe in a text and between double quotes. NUL, which no document may hold, becomes U+FFFD.
func escape(s string) string {
	return strings.ReplaceAll(html.EscapeString(strings.ToValidUTF8(s, "\uFFFD")), "\x00", "\uFFFD")
}

type group []Node

// Group is several nodes one after the other. It holds no attributes.
//
//go:noinline
func Group(nodes ...Node) Node { return group(nodes) }

func (g group) write(b *bytes.Buffer) {
	for _, n := range g {
		if n != nil {
			n.write(b)
		}
	}
}

// form is markup with holes, and what fills them.
type form struct {
	markup name
	values []any
}

// Form is markup in which each "{}" is replaced by the next of values: a string, which is escaped, a Node, or nil. The
// markup is a constant of the source; a hole of it stands between elements, or, for a string, between double quotes. It
// makes the same as El does, in a tenth of the code.
//
//go:noinline
func Form(markup name, values ...any) Node { return form{markup, values} }

func (f form) write(b *bytes.Buffer) {
	rest, found := string(f.markup), true
	for _, v := range append(f.values, nil) {
		var before string
		before, rest, found = strings.Cut(rest, "{}")
		b.WriteString(before)
		if !found {
			return
		}
		switch v := v.(type) {
		case string:
			b.WriteString(escape(v))
		case Node:
			v.write(b)
		}
	}
}

// Document is a whole page.
func Document(root Node) []byte {
	var b bytes.Buffer
	b.WriteString("<!doctype html>")
	root.write(&b)
	return b.Bytes()
}

// Fragment is a part of a page.
func Fragment(n Node) []byte {
	var b bytes.Buffer
	n.write(&b)
	return b.Bytes()
}
