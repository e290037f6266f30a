package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/cli/web/page"
)

// TestTheLinkLogsIn: who opens the link himself is logged in at once; who is sent there, or may not have been there, is not.
func TestTheLinkLogsIn(t *testing.T) {
	s := newSite(t, nil)
	head := func(r *http.Request) { r.Method = http.MethodHead }
	for title, tc := range map[string]struct {
		change []func(*http.Request)
		want   int
	}{
		"the address bar":              {[]func(*http.Request){header("Sec-Fetch-Site", "none")}, 303},
		"a terminal":                   {nil, 303},
		"a page of another site":       {[]func(*http.Request){header("Sec-Fetch-Site", "cross-site")}, 200},
		"another port of this machine": {[]func(*http.Request){header("Sec-Fetch-Site", "same-site")}, 200},
		"a look ahead":                 {[]func(*http.Request){header("Sec-Fetch-Site", "none"), header("Sec-Purpose", "prefetch;prerender")}, 200},
		"an older look ahead":          {[]func(*http.Request){header("Purpose", "prefetch")}, 200},
		"a look at the headers":        {[]func(*http.Request){head}, 200},
		"a name that points here":      {[]func(*http.Request){host("evil.example")}, 403},
	} {
		t.Run(title, func(t *testing.T) {
			code := s.code(t)
			resp := s.ask(request("GET", "/login?code="+code, "", tc.change...))
			if resp.StatusCode != tc.want || (len(resp.Cookies()) == 1) != (tc.want == 303) {
				t.Errorf("%s with %d cookies, want %d", resp.Status, len(resp.Cookies()), tc.want)
			}
			want := http.StatusForbidden // it was used
			if tc.want != 303 {
				want = http.StatusSeeOther
			}
			if again := s.ask(request("POST", "/login", url.Values{"code": {code}}.Encode())); again.StatusCode != want {
				t.Errorf("the form with the same code: %s, want %d", again.Status, want)
			}
		})
	}
}

// TestWhoIsSentToTheLogin: no answer to a page that reads is an error, so a browser's console has nothing to say after a
// logout, and a script that posts still learns of it.
func TestWhoIsSentToTheLogin(t *testing.T) {
	s := newSite(t, nil)
	if resp := s.ask(request("GET", "/chat", "")); resp.StatusCode != 303 || resp.Header.Get("Location") != "/login" {
		t.Errorf("a page: %s to %q", resp.Status, resp.Header.Get("Location"))
	}
	resp := s.ask(request("GET", "/stream", "", header("Accept", "text/event-stream")))
	if got := text(resp); resp.StatusCode != 200 || got != page.StreamEnd || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("a stream: %s %q", resp.Status, got)
	}
	if resp := s.ask(request("POST", "/do", "")); resp.StatusCode != 401 {
		t.Errorf("a post: %s, want 401", resp.Status)
	}
	if got := text(s.ask(request("GET", "/login?ended", ""))); !strings.Contains(got, "Your login has ended") {
		t.Errorf("the login page does not say that a login has ended: %s", got)
	}
}
