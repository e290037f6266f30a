package web

import (
	_ "embed"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
	"github.com/hermes-connector/hermes-connector/relay"
	"github.com/hermes-connector/hermes-connector/relay/login"
	"github.com/hermes-connector/hermes-connector/relay/server/limits"
)

const cookieName = "hermes-connector"

// logins knows who is logged in, and logs people in and out.
type logins struct {
	// Set once.
	desk     *login.Desk
	o        Options
	secure   bool // o.URL is https
	failures limits.Failures
}

// cookie returns the name of the session's cookie, which contains the port. Browsers send cookies to all ports of a
// host, so the cookie of another connector on this machine needs another name.
func cookie(r *http.Request) string {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return cookieName + "-" + strconv.Itoa(a.Port)
	}
	return cookieName
}

// token returns the session's token that the browser sent; empty: it sent none.
func (l *logins) token(r *http.Request) string {
	c, err := r.Cookie(cookie(r))
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie makes the browser keep a session's token until the session ends; an empty token deletes the cookie.
func (l *logins) setCookie(w http.ResponseWriter, r *http.Request, token string, until time.Time) {
	c := &http.Cookie{
		Name: cookie(r), Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || l.secure, MaxAge: -1,
	}
	if token != "" {
		c.MaxAge = int(until.Sub(l.o.Now()) / time.Second)
	}
	http.SetCookie(w, c)
}

// stranger answers somebody who is not logged in. A page leads to the login, and so does a stream, with its event
// "end", because browsers show every error response in their console. The cookie, if there is one, stays: the login
// page reads it.
func (l *logins) stranger(w http.ResponseWriter, r *http.Request) {
	switch read := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case read && r.Header.Get("Accept") == "text/event-stream":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(page.StreamEnd)) // fails only if the browser is gone
	case read:
		http.Redirect(w, r, page.Login, http.StatusSeeOther)
	default:
		page.Answer(w, http.StatusUnauthorized, form("", "", l.ended(r)))
	}
}

// ended returns the text for somebody whose session has ended, as the cookie or the page's address shows.
func (l *logins) ended(r *http.Request) string {
	if l.token(r) == "" && !r.URL.Query().Has("ended") {
		return ""
	}
	return "Your login has ended."
}

// page logs a person in at once if they opened the link in their browser. Everybody else gets a page with a button: a
// program that follows links before a person does must not use up the code or get its session.
func (l *logins) page(w http.ResponseWriter, r *http.Request) {
	next := after(r.URL.Query().Get(page.Next))
	_, err := l.desk.Session(r.Context(), l.token(r))
	if name, _ := l.named(r); err == nil || name != "" {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	code := r.URL.Query().Get("code")
	if len(code) > relay.TokenLen {
		code = ""
	}
	if code != "" && opened(r) {
		l.enter(w, r, code, next)
		return
	}
	if l.token(r) != "" {
		l.setCookie(w, r, "", time.Time{})
	}
	page.Answer(w, http.StatusOK, form(code, next, l.ended(r)))
}

// opened reports whether a person opened the address in this browser: from the address bar, a bookmark, a terminal or a
// code that they scanned. Browsers say so in headers, and also say when they load a page in advance. A person who
// follows a link on another site gets the button, too: the browser would not send the new cookie (SameSite=Strict) with
// the redirect to the next page.
func opened(r *http.Request) bool {
	for _, ahead := range [...]string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		if r.Header.Get(ahead) != "" {
			return false
		}
	}
	says := func(what, want string) bool { return r.Header.Get("Sec-Fetch-"+what) == want }
	return r.Method == http.MethodGet && says("Site", "none") && says("Mode", "navigate") && says("Dest", "document") && says("User", "?1")
}

// after returns where a login leads that is asked to lead to next: to a chat, or to the status page. It never leaves
// this server.
func after(next string) string {
	if strings.HasPrefix(next, page.Chat+"/") {
		return next
	}
	return page.Status
}

//go:embed login.html
var loginMarkup string

var templates = page.Parse(loginMarkup, nil)

// form returns the login page. With a code it needs only the press of a button, and leads to next. said is the reason
// why the page is shown, if there is one.
func form(code, next, said string) page.Page {
	return page.Page{Title: "Log in", Main: templates.HTML("login", struct{ Code, Next, Alert string }{code, next, said})}
}

// logIn exchanges the code in the form for a session.
func (l *logins) logIn(w http.ResponseWriter, r *http.Request) {
	said := page.Form(w, r)
	l.enter(w, r, said.Get("code"), after(said.Get(page.Next)))
}

// enter exchanges a code for a session, and leads the browser to next. It tells clients with too many wrong codes to
// wait, but always accepts a right one.
func (l *logins) enter(w http.ResponseWriter, r *http.Request, code, next string) {
	token, until, err := l.desk.LogIn(r.Context(), code, l.o.Login)
	switch {
	case errors.Is(err, login.ErrNotGood):
		if wait := l.failures.Add(l.o.TrustedProxies.From(r), l.o.Now()); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			page.Answer(w, http.StatusTooManyRequests, form("", "", "Too many wrong codes came from your address. Wait a minute, then try again."))
			return
		}
		page.Answer(w, http.StatusForbidden, form("", "", "This code has expired or was already used. hermes-connector web makes a new one."))
	case err != nil:
		l.o.Log.Error("a login could not be stored", "err", err)
		page.Answer(w, http.StatusServiceUnavailable, form("", "", "The login could not be stored. hermes-connector doctor says why."))
	default:
		limits.Verified(r.Context())
		l.setCookie(w, r, token.RevealString(), until)
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

// logOut ends the session of the person who makes the request, if they have one.
func (l *logins) logOut(w http.ResponseWriter, r *http.Request) {
	if name, _ := l.named(r); name != "" {
		page.Answer(w, http.StatusOK, page.Words(page.Status, "Log out at the proxy", "The proxy in front of this server says that you are "+name+". As long as it does, you are logged in here."))
		return
	}
	if err := l.desk.LogOut(r.Context(), l.token(r)); err != nil {
		l.o.Log.Error("a logout could not be stored", "err", err)
	}
	l.setCookie(w, r, "", time.Time{})
	http.Redirect(w, r, page.Login, http.StatusSeeOther)
}

// maxPerson bounds a name that a proxy gives, in bytes.
const maxPerson = 100

// named returns the person whom a trusted proxy names in Options.TrustHeader; empty: no trusted proxy sent the header.
// It returns an error if the header has no valid name.
func (l *logins) named(r *http.Request) (string, error) {
	if l.o.TrustHeader == "" {
		return "", nil
	}
	said := r.Header.Values(l.o.TrustHeader)
	if len(said) == 0 {
		return "", nil
	}
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !l.o.TrustedProxies.Trust(peer.Addr()) {
		l.o.Ignored()
		return "", nil
	}
	if name := said[0]; len(said) == 1 && name != "" && len(name) <= maxPerson && relay.Shown(name) == name {
		return name, nil
	}
	return "", errNoName
}

var errNoName = errors.New("no name")
