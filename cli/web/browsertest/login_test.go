package browsertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestLogin: a link logs in once, and nobody sees anything without a login.
func TestLogin(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	link := p.link()
	first, second := newTab(t), newTab(t)
	for _, path := range []string{"/", "/chat", "/chat/home", "/events", "/nothing"} {
		first.do("open "+path, chromedp.Navigate(p.site+path))
		first.await("the login page is shown", "location.pathname === '/login'")
	}
	first.says("Run hermes-connector web")
	first.looks("login needed")
	first.do("follow the link", chromedp.Navigate(link))
	first.await("the status page is shown", fmt.Sprintf("location.href === %q", p.site+"/"))
	first.cookie()

	second.open(link, http.StatusForbidden)
	second.says("already used")
	second.looks("login used")
	second.do("type a code", chromedp.SendKeys("#code", "abc"+kb.Enter, chromedp.ByQuery))
	second.says("already used")

	// Whoever is logged in is logged out by the button, by the command, and loses what streams to them.
	first.click("Log out")
	first.await("the login page is shown", "location.pathname === '/login'")
	p.enroll("home")
	third, fourth := p.login(), p.login()
	third.do("open", chromedp.Navigate(p.site+"/chat/home"))
	third.says("never connected")
	p.run("web", "logout", "--all")
	for _, b := range []*tab{third, fourth} {
		b.says("Your login has ended")
		b.noErrors()
	}
	third.looks("login ended")

	for range 12 {
		res, err := http.PostForm(p.site+"/login", map[string][]string{"code": {"guessed"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	third.do("type a code", chromedp.SendKeys("#code", "abc"+kb.Enter, chromedp.ByQuery))
	third.says("Too many wrong codes")
	third.looks("login too many")

	// What looks at links in messages leaves a link good, and the wrong codes from this address do too.
	link = p.link()
	res, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK || len(res.Cookies()) > 0 {
		t.Errorf("a program that opens the link: %s, with %d cookies", res.Status, len(res.Cookies()))
	}
	third.do("follow the link", chromedp.Navigate(link))
	third.await("the status page is shown", fmt.Sprintf("location.href === %q", p.site+"/"))
}

// cookie looks at the session's.
func (b *tab) cookie() {
	b.t.Helper()
	b.do("cookies", chromedp.ActionFunc(func(ctx context.Context) error {
		all, err := network.GetCookies().Do(ctx)
		if err == nil && (len(all) != 1 || !all[0].HTTPOnly || all[0].SameSite != network.CookieSameSiteStrict || all[0].Session) {
			err = fmt.Errorf("%+v", all)
		}
		return err
	}))
	if got := eval[string](b, "document.cookie"); got != "" {
		b.t.Errorf("script reads the cookie: %q", got)
	}
}

// TestOtherPages: a page of somebody else's, open beside ours, can do and read nothing, under whatever name.
func TestOtherPages(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	p.enroll("home")
	b := p.login()
	mine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><form method="post" action="%[1]s/logout"></form><iframe src="%[1]s/"></iframe>`, p.site)
	}))
	t.Cleanup(mine.Close)
	b.open(mine.URL+"/", http.StatusOK)
	for what, script := range map[string]string{
		"posts": `fetch(%q, {method: 'POST', mode: 'no-cors', credentials: 'include', body: (() => { const f = new FormData(); f.set('text', 'forged'); return f; })()}).then(() => 'sent', () => 'refused')`,
		"reads": `fetch(%q, {credentials: 'include'}).then(r => r.text(), () => 'refused')`,
	} {
		got := eval[string](b, fmt.Sprintf(script, p.site+map[string]string{"posts": "/chat/home/say", "reads": "/chat/home"}[what]))
		if what == "reads" && got != "refused" {
			t.Errorf("another page %s: %s", what, got)
		}
	}
	if n := eval[int](b, "frames.length"); n != 1 {
		t.Fatalf("%d frames", n)
	}
	b.do("post a form", chromedp.Evaluate("document.forms[0].submit()", nil))
	b.await("it was refused", fmt.Sprintf("location.href === %q", p.site+"/logout"))
	b.mayFail() // the browser says what the policy forbade, as it should
	b.open(p.site+"/chat/home", http.StatusOK)
	if said := b.text("#messages"); strings.Contains(said, "forged") {
		t.Errorf("another page spoke: %s", said)
	}

	// A name that somebody pointed here.
	b.open(strings.Replace(p.site, "127.0.0.1", rebound, 1)+"/", http.StatusForbidden)
	for _, host := range []string{"example.net", "0.0.0.0", "", "localhost.example.net"} {
		req, err := http.NewRequest(http.MethodGet, p.site+"/login", nil)
		if err != nil {
			t.Fatal(err)
		}
		if req.Host = host; host == "" {
			req.Host = "."
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusForbidden || strings.Contains(string(text), "<") {
			t.Errorf("as %q: %d %s", host, res.StatusCode, text)
		}
	}
}

// TestALinkOnAnotherSite: who is sent to a link by a page of another site has to press the button.
func TestALinkOnAnotherSite(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	link := p.link()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><title>x</title><link rel="icon" href="data:,"><a href="%s">Status</a>`, link)
	}))
	t.Cleanup(other.Close)
	b := newTab(t)
	b.open(strings.Replace(other.URL, "127.0.0.1", rebound, 1)+"/", http.StatusOK)
	b.click("Status")
	b.says("This browser stays logged in for 30 days")
	b.looks("login link")
	b.do("press enter", chromedp.KeyEvent(kb.Enter)) // the button has the focus
	b.await("the status page is shown", fmt.Sprintf("location.href === %q", p.site+"/"))
}
