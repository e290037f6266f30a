// Package page is the frame that all pages of the web server share: head, navigation and the main part; the style
// sheet; the script that shows times where the reader is, and whether the server is there; how templates and streams
// are sent, and files that never change.
//
// Invariants:
//
//  1. A page loads nothing from other servers, and contains no inline script and no inline style, so that it can have
//     the strictest content policy (Policy).
//  2. Whatever the values are, a page has the elements and attributes that its templates name, and no others.
package page

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hermes-connector/hermes-connector/store/audit"
)

// Policy is the Content-Security-Policy of every answer.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// The paths of the navigation's entries.
const (
	Status = "/"
	Chat   = "/chat"
)

// Login is the path of the login page. With "ended" in its query the page says that a login has ended. Next in its
// query is the path of the chat to show after the login.
const (
	Login = "/login"
	Next  = "next"
)

// Page is one page.
type Page struct {
	Title string
	Here  string // the path of this page's navigation entry; empty: nobody is logged in, and there is no navigation
	Main  template.HTML
	// Styles and Scripts are served beside the frame's own, each by its path.
	Styles, Scripts []string
}

type personKey struct{}

// WithPerson returns ctx with the name that a proxy gave for the person who makes the request.
func WithPerson(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, personKey{}, name)
}

// Actor returns the person who makes the request, for the audit list, with their name if a proxy gave it.
func Actor(ctx context.Context) audit.Actor {
	name, _ := ctx.Value(personKey{}).(string)
	return audit.Actor{Kind: audit.ActorWeb, Name: name}
}

// Answer sends p. A page is for one person and one moment, so nothing may cache it.
func Answer(w http.ResponseWriter, status int, p Page) {
	body := frame.HTML("page", p)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // fails only if the browser is gone
}

// maxForm bounds a form, in bytes.
const maxForm = 4 << 10

// Form returns the fields of the form in r's body; none if the form cannot be read.
func Form(w http.ResponseWriter, r *http.Request) url.Values {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	_ = r.ParseForm()
	return r.PostForm
}

// Words returns a page that has only a title and sentences. here is for Page.Here.
func Words(here, title string, sentences ...string) Page {
	return Page{Title: title, Here: here, Main: frame.HTML("words", struct {
		Title     string
		Sentences []string
	}{title, sentences})}
}
