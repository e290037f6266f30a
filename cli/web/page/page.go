// Package page is the frame that all pages of the web server share: head, navigation and the main part; the style
// sheet; and how files that never change are served.
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
	head := []html.Node{
		html.El("meta", html.Attr("charset", "utf-8")),
		html.El("meta", html.Attr("name", "viewport"), html.Attr("content", "width=device-width, initial-scale=1")),
		html.El("meta", html.Attr("name", "color-scheme"), html.Attr("content", "light dark")),
		html.El("title", html.Text(p.Title+" – Hermes Connector")),
		html.El("link", html.Attr("rel", "icon"), html.Attr("href", icon.Path), html.Attr("type", "image/svg+xml")),
		html.El("link", html.Attr("rel", "stylesheet"), html.Attr("href", style.Path)),
	}
	for _, path := range p.Styles {
		head = append(head, html.El("link", html.Attr("rel", "stylesheet"), html.Attr("href", path)))
	}
	for _, path := range p.Scripts {
		head = append(head, html.El("script", html.Attr("src", path), html.Flag("defer", true)))
	}
	main := append([]html.Node{html.Attr("id", "main"), html.Attr("tabindex", "-1")}, p.Main...)
	return html.Document(html.El("html", html.Attr("lang", "en"),
		html.El("head", head...),
		html.El("body",
			html.El("a", html.Attr("class", "skip"), html.Attr("href", "#main"), html.Text("Skip to the content")),
			header(p.Here), html.El("main", main...)),
	))
}

// header is the product's name, the navigation and the way out.
func header(here string) html.Node {
	name := html.El("span", html.Attr("class", "name"), html.Text("Hermes Connector"))
	if here == "" {
		return html.El("header", name)
	}
	return html.El("header", name,
		html.El("nav", html.Attr("aria-label", "Pages"), entry(Status, "Status", here), entry(Chat, "Chat", here)),
		html.El("form", html.Attr("method", "post"), html.Attr("action", "/logout"),
			html.El("button", html.Attr("class", "quiet"), html.Text("Log out"))),
	)
}

func entry(path, label, here string) html.Node {
	var current html.Node
	if path == here {
		current = html.Attr("aria-current", "page")
	}
	return html.El("a", html.Attr("href", path), current, html.Text(label))
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
	main := []html.Node{html.El("h1", html.Text(title))}
	for _, s := range sentences {
		main = append(main, html.El("p", html.Text(s)))
	}
	return Page{Title: title, Here: here, Main: main}
}
