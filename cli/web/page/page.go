// Package page is the frame that all pages of the web server share: head, navigation and the main part; the style
// sheet; the script that shows times where the reader is, and whether the server is there; and how files that never change
// are served.
//
// Invariant: a page names no address but this server's own, and holds no script and no style of its own, so that the
// strictest policy of content can stand over it (Policy).
package page

import (
	"net/http"
	"strconv"

	"github.com/hermes-connector/hermes-connector/cli/web/html"
)

// Policy is the Content-Security-Policy of every answer.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// The paths of the navigation's entries.
const (
	Status = "/"
	Chat   = "/chat"
)

// Login is the path of the login page. With the query "ended" it says that a login has ended, and Next in its query names the chat
// that it leads to.
const (
	Login = "/login"
	Next  = "next"
)

// Server-sent events of every stream. Every two seconds something is sent on one, StreamBeat if there is nothing else: a page on
// which nothing comes shows that the server is gone. StreamEnd is the end of the session: the page then leads to the login.
const (
	StreamBeat = "event: beat\ndata:\n\n"
	StreamEnd  = "event: end\ndata:\n\n"
)

// Lost is what a page with a stream shows while nothing comes on it, in place of what has the class "now". It is hidden at first.
func Lost() html.Node {
	return html.Form(`<div id="lost" role="alert" hidden=""><h1 class="bad">The server does not answer</h1>` +
		`<p>What you see here is from <time data-as="clock"></time> and may be old. This page keeps trying.</p></div>`)
}

// Page is one page.
type Page struct {
	Title string
	Here  string // the path of the navigation's entry that this page belongs to; empty: nobody is logged in, and there is no navigation
	Main  []html.Node
	// Styles and Scripts are served beside the frame's own, each by its path.
	Styles, Scripts []string
}

// Write is p as bytes.
func Write(p Page) []byte {
	var head []html.Node
	for _, path := range p.Styles {
		head = append(head, html.Form(`<link rel="stylesheet" href="{}">`, path))
	}
	scripts := p.Scripts
	if p.Here != "" { // the login page has no times
		scripts = append([]string{script.Path}, scripts...)
	}
	for _, path := range scripts {
		head = append(head, html.Form(`<script src="{}" defer=""></script>`, path))
	}
	main := append([]html.Node{html.Attr("id", "main"), html.Attr("tabindex", "-1")}, p.Main...)
	return html.Document(html.Form(`<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">`+
		`<meta name="color-scheme" content="light dark"><title>{} – Hermes Connector</title><link rel="icon" href="{}" type="image/svg+xml">`+
		`<link rel="stylesheet" href="{}">{}</head><body><a class="skip" href="#main">Skip to the content</a>{}{}</body></html>`,
		p.Title, icon.Path, style.Path, html.Group(head...), header(p.Here), html.El("main", main...)))
}

// header is the product's name, the navigation and the way out.
func header(here string) html.Node {
	if here == "" {
		return html.Form(`<header><span class="name">Hermes Connector</span></header>`)
	}
	return html.Form(`<header><span class="name">Hermes Connector</span><nav aria-label="Pages">{}{}</nav>`+
		`<form method="post" action="/logout"><button class="quiet">Log out</button></form></header>`,
		entry(Status, "Status", here), entry(Chat, "Chat", here))
}

func entry(path, label, here string) html.Node {
	if path == here {
		return html.Form(`<a href="{}" aria-current="page">{}</a>`, path, label)
	}
	return html.Form(`<a href="{}">{}</a>`, path, label)
}

// Answer sends p. What a page shows is of its moment and for who asked: nothing keeps it.
func Answer(w http.ResponseWriter, status int, p Page) {
	body := Write(p)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // whoever asked may be gone
}

// Words is a page that says one thing. Here is Page.Here.
func Words(here, title string, sentences ...string) Page {
	main := []html.Node{html.Form("<h1>{}</h1>", title)}
	for _, s := range sentences {
		main = append(main, html.Form("<p>{}</p>", s))
	}
	return Page{Title: title, Here: here, Main: main}
}
