// Package page is the frame that all pages of the web server share: head, navigation and the main part.
package page

import "github.com/hermes-connector/hermes-connector/cli/web/html"

// Page is one page.
type Page struct {
	Title string
	Here  string // the path of the navigation's entry that this page is
	Main  []html.Node
}

// Write is p as bytes.
func Write(p Page) []byte {
	return html.Document(html.El("html", html.Attr("lang", "en"),
		html.El("head", html.El("meta", html.Attr("charset", "utf-8")), html.El("title", html.Text(p.Title))),
		html.El("body", html.El("main", p.Main...)),
	))
}
