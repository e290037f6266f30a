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

	"github.com/hermes-connector/hermes-connector/relay"
)

// Node is an element, an attribute, a text or a group of these; nil is nothing.
type Node = *node

// node is one of them. Its makers are not inlined: a page has hundreds of nodes, and each would cost a copy of them.
type node struct {
	kind  kind
	name  name   // of an element or an attribute; a form's markup
	value string // of an attribute or a text
	nodes []Node // of an element or a group, attributes among them; what fills a form
}

type kind uint8

const (
	element kind = iota
	attr
	text
	group
	form
)

// name is of an element or an attribute. Its type is not exported, so that only constants become one.
type name string

// void are the elements that have no content and no end.
var void = []name{"input", "meta", "link", "br", "hr", "img", "use"}

// El is an element with attributes and content, in their order. Nil nodes are left out.
func El(n name, content ...Node) Node { return &node{kind: element, name: n, nodes: content} }

// Attr is an attribute. A value that is an address must begin with a constant "/", or be one that this program made.
func Attr(n name, value string) Node { return &node{kind: attr, name: n, value: value} }

// Text is what a person reads.
func Text(s string) Node { return &node{kind: text, value: s} }

// Group is several nodes one after the other. It holds no attributes.
func Group(nodes ...Node) Node { return &node{kind: group, nodes: nodes} }

func (n *node) write(b *bytes.Buffer) {
	switch n.kind {
	case text:
		b.WriteString(escape(n.value))
	case attr:
		b.WriteByte(' ')
		b.WriteString(string(n.name))
		b.WriteString(`="`)
		b.WriteString(escape(n.value))
		b.WriteByte('"')
	case group:
		n.content(b, false)
	case form:
		n.fill(b)
	case element:
		b.WriteByte('<')
		b.WriteString(string(n.name))
		n.content(b, true)
		b.WriteByte('>')
		if slices.Contains(void, n.name) {
			return
		}
		n.content(b, false)
		b.WriteString("</")
		b.WriteString(string(n.name))
		b.WriteByte('>')
	}
}

// content writes the attributes among n's nodes, or the others.
func (n *node) content(b *bytes.Buffer, attrs bool) {
	for _, c := range n.nodes {
		if c != nil && (c.kind == attr) == attrs {
			c.write(b)
		}
	}
}

// Form is markup in which each "{}" is replaced by the next of values: a string, which is escaped, a Node, or nil. The markup
// is a constant of the source; a hole of it stands between elements, or, for a string, between double quotes. It is
// El where the elements are known.
func Form(markup name, values ...any) Node {
	f := &node{kind: form, name: markup}
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			f.nodes = append(f.nodes, nil)
		case string:
			f.nodes = append(f.nodes, Text(v))
		case Node:
			f.nodes = append(f.nodes, v)
		default:
			panic("html: a form's value is neither text nor a node")
		}
	}
	return f
}

// fill writes a form's markup with its nodes in the holes.
func (n *node) fill(b *bytes.Buffer) {
	rest := string(n.name)
	for _, c := range n.nodes {
		var before string
		before, rest, _ = strings.Cut(rest, "{}")
		b.WriteString(before)
		if c != nil {
			c.write(b)
		}
	}
	b.WriteString(rest)
}

// escape makes s safe in a text and between double quotes, and leaves out what is not relay.Visible: no control characters,
// and nothing that turns the direction of what stands around it.
func escape(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || relay.Visible(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(s, "\uFFFD")))
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
